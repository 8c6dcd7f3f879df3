import { createContext, useContext, useEffect, useRef, type ReactNode } from 'react';

/** A key and what it does. `name` is what the help shows: `j`, `Shift+Enter`, `Ctrl+K`. */
export interface KeyBinding {
  name: string;
  does: string;
  run: (event: KeyboardEvent) => void;
}

type Layer = { current: KeyBinding[] };

const KeysContext = createContext<Layer[]>([]);

/** Keys of the whole page. The component that was mounted last is served first. */
export function KeysProvider({ children }: { children: ReactNode }) {
  const layers = useRef<Layer[]>([]);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.defaultPrevented) return;
      const name = nameOf(event);
      if (isTyping(event.target) && !name.startsWith('Ctrl+') && name !== 'Escape') return;
      if (document.querySelector('dialog[open]') !== null) return;
      for (const layer of layers.current.toReversed()) {
        const binding = layer.current.find((one) => one.name === name);
        if (binding === undefined) continue;
        event.preventDefault();
        binding.run(event);
        return;
      }
    };
    window.addEventListener('keydown', press);
    return () => window.removeEventListener('keydown', press);
  }, []);
  return <KeysContext value={layers.current}>{children}</KeysContext>;
}

/** Binds keys while the component is shown. */
export function useKeys(bindings: KeyBinding[]): void {
  const layers = useContext(KeysContext);
  const layer = useRef(bindings);
  layer.current = bindings;
  useEffect(() => {
    layers.push(layer);
    return () => {
      layers.splice(layers.indexOf(layer), 1);
    };
  }, [layers]);
}

/** The keys that work now, the screen's own first. */
export function useBindings(): () => KeyBinding[] {
  const layers = useContext(KeysContext);
  return () => layers.toReversed().flatMap((layer) => layer.current);
}

export function nameOf(event: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>): string {
  const key = event.key.length === 1 && (event.ctrlKey || event.metaKey) ? event.key.toUpperCase() : event.key;
  const isNamed = event.key.length > 1;
  return [
    event.ctrlKey || event.metaKey ? 'Ctrl+' : '',
    event.altKey ? 'Alt+' : '',
    event.shiftKey && isNamed ? 'Shift+' : '',
    key,
  ].join('');
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) &&
    !/^(checkbox|radio|button)$/.test((target as HTMLInputElement).type)
  );
}

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
      if (name === 'Enter' && isActivated(event.target)) return;
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
  const isNamed = event.key.length > 1;
  // on many keyboards, `[` needs Alt or AltGr, which browsers report as Ctrl and Alt
  const isTyped = event.altKey && !isNamed && !/[a-z0-9]/i.test(event.key);
  const isControl = (event.ctrlKey || event.metaKey) && !isTyped;
  const key = !isNamed && isControl ? event.key.toUpperCase() : event.key;
  return [
    isControl ? 'Ctrl+' : '',
    event.altKey && !isTyped ? 'Alt+' : '',
    event.shiftKey && isNamed ? 'Shift+' : '',
    key,
  ].join('');
}

/** Whether Enter has a meaning of its own where the focus is. */
function isActivated(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('a[href], button, summary, [role=button]') !== null;
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) &&
    !/^(checkbox|radio|button)$/.test((target as HTMLInputElement).type)
  );
}

import {
  createContext,
  useContext,
  useMemo,
  useSyncExternalStore,
  type AnchorHTMLAttributes,
  type MouseEvent,
  type ReactNode,
} from 'react';
import { format, parse, patched, type Address, type AddressBar, type Patch } from './address.ts';

export const BarContext = createContext<AddressBar | null>(null);

function useBar(): AddressBar {
  const bar = useContext(BarContext);
  if (bar === null) throw new Error('a page without an address');
  return bar;
}

export interface Router {
  address: Address;
  /** Goes to an address, as a link does. */
  go(text: string): void;
  /** Changes the query. `push`: so that Back returns to the state before. */
  set(patch: Patch, push?: boolean): void;
  /** The current address with another query, for links. */
  with(patch: Patch): string;
}

export function useRouter(): Router {
  const bar = useBar();
  const text = useSyncExternalStore(bar.subscribe, bar.read);
  return useMemo(() => {
    const address = parse(text);
    // as it is now: several changes may happen before the page is drawn again
    const current = () => parse(bar.read());
    return {
      address,
      go: (target) => bar.go(target, false),
      set: (patch, push = false) => bar.go(format(patched(current(), patch)), !push),
      with: (patch) => format(patched(address, patch)),
    };
  }, [bar, text]);
}

interface LinkProps extends Omit<AnchorHTMLAttributes<HTMLAnchorElement>, 'href'> {
  to: string;
  children: ReactNode;
}

/** A link within the page. It is a real link: it opens in a new tab, and its address can be copied. */
export function Link({ to, children, onClick, ...rest }: LinkProps) {
  const bar = useBar();
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    bar.go(to, false);
  };
  return (
    <a {...rest} href={bar.href(to)} onClick={follow}>
      {children}
    </a>
  );
}

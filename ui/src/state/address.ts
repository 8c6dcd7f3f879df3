/** All state of the page is in its address, so that a link shows others the same. */

/** A path below the page's root and its query. */
export interface Address {
  path: string;
  query: URLSearchParams;
}

export function parse(text: string): Address {
  const [path = '', query = ''] = text.split('?', 2);
  return { path: path === '' ? '/' : path, query: new URLSearchParams(query) };
}

export function format(address: Address): string {
  const query = address.query.toString();
  // commas and colons are legal in a query, and readable
  const readable = query.replaceAll('%2C', ',').replaceAll('%3A', ':').replaceAll('%2F', '/');
  return readable === '' ? address.path : `${address.path}?${readable}`;
}

export type Patch = Record<string, string | number | null>;

/** The same address with other values; null removes one. */
export function patched(address: Address, patch: Patch): Address {
  const query = new URLSearchParams(address.query);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null || value === '') query.delete(key);
    else query.set(key, String(value));
  }
  return { path: address.path, query };
}

/** Where the address is: the path of the page, or the fragment of a file. */
export interface AddressBar {
  /** The current address as text. */
  read(): string;
  /** What a link to an address has as its `href`. */
  href(text: string): string;
  go(text: string, replace: boolean): void;
  subscribe(listener: () => void): () => void;
}

const CHANGED = 'faultloom-address';

export function pathBar(window: Window): AddressBar {
  return {
    read: () => window.location.pathname + window.location.search,
    href: (text) => text,
    go: (text, replace) => change(window, text, replace),
    subscribe: (listener) => subscribe(window, ['popstate', CHANGED], listener),
  };
}

/** For a file, which has one path only. */
export function fragmentBar(window: Window): AddressBar {
  return {
    read: () => window.location.hash.replace(/^#/, '') || '/',
    href: (text) => `#${text}`,
    go: (text, replace) => change(window, `#${text}`, replace),
    subscribe: (listener) => subscribe(window, ['popstate', 'hashchange', CHANGED], listener),
  };
}

function change(window: Window, href: string, replace: boolean): void {
  if (replace) window.history.replaceState(null, '', href);
  else window.history.pushState(null, '', href);
  window.dispatchEvent(new Event(CHANGED));
}

function subscribe(window: Window, types: string[], listener: () => void): () => void {
  types.forEach((type) => window.addEventListener(type, listener));
  return () => types.forEach((type) => window.removeEventListener(type, listener));
}

/**
 * Replaces functions of libraries. A patch that fails halfway is undone, so a library is either hooked or unchanged.
 */

/** A function of a library, of any signature. */
export type Fn = (this: any, ...args: any[]) => any;

/** An object of a library, with any properties. */
export type Loose = Record<PropertyKey, any>;

/** The library cannot be hooked; the message is the reason. */
export class Unsupported extends Error {}

/** The functions replaced in one library. */
export class Patch {
  readonly #undo: (() => void)[] = [];

  /** Replaces a function. `make` gets the original. Throws Unsupported if there is none. */
  wrap(owner: Loose, name: string, make: (original: Fn) => Fn): void {
    const original: unknown = owner[name];
    if (typeof original !== 'function') {
      throw new Unsupported(`has no ${name}`);
    }
    const replacement = make(original as Fn);
    for (const key of ['name', 'length']) {
      Object.defineProperty(replacement, key, { value: (original as unknown as Loose)[key], configurable: true });
    }
    const own = Object.getOwnPropertyDescriptor(owner, name);
    Object.defineProperty(owner, name, {
      value: replacement,
      configurable: true,
      writable: true,
      enumerable: own?.enumerable ?? false,
    });
    this.#undo.push(() => {
      if (own === undefined) {
        delete owner[name];
      } else {
        Object.defineProperty(owner, name, own);
      }
    });
  }

  undo(): void {
    for (const step of this.#undo.splice(0).reverse()) {
      step();
    }
  }
}

/**
 * Returns a function that hooks the prototype of an object which a library has created, once per prototype. One that
 * cannot be hooked is left unchanged.
 */
export function prototypeHook(hook: (prototype: Loose) => void): (created: object) => void {
  const hooked = new WeakSet<object>();
  return (created) => {
    const prototype = Object.getPrototypeOf(created) as Loose;
    if (hooked.has(prototype)) {
      return;
    }
    hooked.add(prototype);
    try {
      hook(prototype);
    } catch {
      // the application works without tracing
    }
  };
}

/** Compares versions by their first three numbers: `lowest` ≤ `version` < `below`. */
export function isBetween(version: string, lowest: string, below: string): boolean {
  return compare(version, lowest) >= 0 && compare(version, below) < 0;
}

function compare(a: string, b: string): number {
  const left = numbers(a);
  const right = numbers(b);
  for (let i = 0; i < 3; i++) {
    const d = (left[i] ?? 0) - (right[i] ?? 0);
    if (d !== 0) {
      return d;
    }
  }
  return 0;
}

function numbers(version: string): number[] {
  return (version.split('-', 1)[0] ?? '').split('.', 3).map((part) => Number.parseInt(part, 10) || 0);
}

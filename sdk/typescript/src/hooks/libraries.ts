/**
 * Hooks libraries when they are loaded, or at once if they have been.
 *
 * Node hands every CommonJS file to `Module.prototype.load` once, whether `require` or `import` asked for it, and all
 * libraries hooked here are CommonJS. So one place sees them all, each copy of a library by itself, and an application
 * pays nothing for what it does not use. Loader hooks of ECMAScript modules are not needed: prototypes are patched, which
 * every importer shares.
 */

import Module = require('node:module');
import { readFileSync } from 'node:fs';
import { isBetween, Loose, Patch, Unsupported } from './patch';

/** One library and what is done to it. */
export interface Library {
  readonly name: string;
  /** Its main file, below the package's folder. */
  readonly file: string;
  readonly lowest: string;
  readonly below: string;
  /** May throw; what was replaced until then is undone. */
  hook(patch: Patch, exports: Loose, version: string): void;
}

/** What became of a library; `reason` is empty if it is hooked. */
export type Told = (name: string, version: string, reason: string) => void;

interface Loading {
  load(this: Module, filename: string): void;
}

/** Watches for these libraries from now on. */
export function watch(libraries: readonly Library[], tell: Told): void {
  const done = new WeakSet<object>();
  const look = (filename: string, exports: unknown): void => {
    const library = libraries.find((one) => filename.endsWith(one.file) && isOf(filename, one));
    if (library === undefined || exports === null || (typeof exports !== 'object' && typeof exports !== 'function')) {
      return;
    }
    if (!done.has(exports)) {
      done.add(exports);
      hookOne(library, exports as Loose, versionOf(filename.slice(0, -library.file.length)), tell);
    }
  };
  const prototype = Module.prototype as unknown as Loading;
  const load = prototype.load;
  prototype.load = function (filename) {
    load.call(this, filename);
    try {
      look(filename, this.exports);
    } catch {
      // a loader that does not tell names as Node does; the application has its module
    }
  };
  for (const [filename, module] of Object.entries(require.cache)) {
    if (module?.loaded === true) {
      look(filename, module.exports);
    }
  }
}

function isOf(filename: string, library: Library): boolean {
  const folder = filename.slice(0, -library.file.length).replaceAll('\\', '/');
  return folder.endsWith(`/${library.name}/`);
}

function versionOf(folder: string): string {
  try {
    return String((JSON.parse(readFileSync(`${folder}package.json`, 'utf8')) as { version?: unknown }).version ?? '');
  } catch {
    return '';
  }
}

/** Hooks one copy of a library, or leaves it as it was and tells why. */
export function hookOne(library: Library, exports: Loose, version: string, tell: Told): void {
  const patch = new Patch();
  try {
    if (!isBetween(version, library.lowest, library.below)) {
      throw new Unsupported(`not supported (${library.lowest} up to, without, ${library.below})`);
    }
    library.hook(patch, exports, version);
    tell(library.name, version, '');
  } catch (error) {
    patch.undo();
    tell(library.name, version, error instanceof Unsupported ? error.message : `could not be hooked: ${String(error)}`);
  }
}

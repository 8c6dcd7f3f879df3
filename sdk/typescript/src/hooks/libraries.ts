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
import { basename } from 'node:path';
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
    const library = libraries.find((one) => couldBe(filename, one));
    if (library === undefined || exports === null || (typeof exports !== 'object' && typeof exports !== 'function') || done.has(exports)) {
      return;
    }
    const { name, version } = describe(filename.slice(0, -library.file.length));
    if (name === library.name) {
      done.add(exports);
      hookOne(library, exports as Loose, version, tell);
    }
  };
  const prototype = Module.prototype as unknown as Loading;
  const load = prototype.load;
  prototype.load = function (filename) {
    load.call(this, filename);
    try {
      look(filename, this.exports);
    } catch {
      // a loader that does not name files as Node does; the application has its module
    }
  };
  for (const [filename, module] of Object.entries(require.cache)) {
    if (module?.loaded === true) {
      look(filename, module.exports);
    }
  }
}

/** By its path, which under an alias is not quite the library's; its package.json is read only then. */
function couldBe(filename: string, library: Library): boolean {
  if (!filename.endsWith(library.file)) {
    return false;
  }
  const folder = basename(filename.slice(0, -library.file.length));
  return folder.includes(basename(library.name));
}

function describe(folder: string): { name: string; version: string } {
  const { name, version } = JSON.parse(readFileSync(`${folder}package.json`, 'utf8')) as { name?: unknown; version?: unknown };
  return { name: String(name), version: String(version) };
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

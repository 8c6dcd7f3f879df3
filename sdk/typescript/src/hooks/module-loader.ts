/**
 * Hooks libraries when they are loaded, or at once if they are loaded already.
 *
 * Node passes each CommonJS file to `Module.prototype.load` once, for `require` and for `import`, and all supported
 * libraries are CommonJS. Replacing that function therefore covers every copy of a library, and an application pays
 * nothing for libraries it does not use. Loader hooks for ECMAScript modules are not needed, because prototypes are
 * patched.
 */

import Module = require('node:module');
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { isBetween, Loose, Patch, Unsupported } from './patch';

/** A supported library. */
export interface Library {
  readonly name: string;
  /** The main file, relative to the package's folder. */
  readonly file: string;
  readonly lowest: string;
  readonly below: string;
  /** Hooks a copy of the library. May throw; the patch is then undone. */
  hook(patch: Patch, exports: Loose, version: string): void;
}

/** Reports the state of a library; `reason` is empty if it is hooked. */
export type ReportLibrary = (name: string, version: string, reason: string) => void;

interface Loading {
  load(this: Module, filename: string): void;
}

/** Hooks these libraries when they are loaded, and at once those that are loaded already. */
export function hookWhenLoaded(libraries: readonly Library[], report: ReportLibrary): void {
  const handled = new WeakSet<object>();
  const checkModule = (filename: string, exports: unknown): void => {
    const library = libraries.find((one) => isCandidate(filename, one));
    if (
      library === undefined ||
      exports === null ||
      (typeof exports !== 'object' && typeof exports !== 'function') ||
      handled.has(exports)
    ) {
      return;
    }
    const { name, version } = readPackage(filename.slice(0, -library.file.length));
    if (name === library.name) {
      handled.add(exports);
      hookLibrary(library, exports as Loose, version, report);
    }
  };
  const prototype = Module.prototype as unknown as Loading;
  const load = prototype.load;
  prototype.load = function (filename) {
    load.call(this, filename);
    try {
      checkModule(filename, this.exports);
    } catch {
      // another loader may use other file names; the application gets its module in any case
    }
  };
  for (const [filename, module] of Object.entries(require.cache)) {
    if (module?.loaded === true) {
      checkModule(filename, module.exports);
    }
  }
}

/**
 * A cheap check of the path, which differs from the library's name under an alias. Only candidates' package.json is
 * read.
 */
function isCandidate(filename: string, library: Library): boolean {
  if (!filename.endsWith(library.file)) {
    return false;
  }
  const folder = basename(filename.slice(0, -library.file.length));
  return folder.includes(basename(library.name));
}

function readPackage(folder: string): { name: string; version: string } {
  const { name, version } = JSON.parse(readFileSync(`${folder}package.json`, 'utf8')) as {
    name?: unknown;
    version?: unknown;
  };
  return { name: String(name), version: String(version) };
}

/** Hooks one copy of a library, or leaves it unchanged and reports why. */
export function hookLibrary(library: Library, exports: Loose, version: string, report: ReportLibrary): void {
  const patch = new Patch();
  try {
    if (!isBetween(version, library.lowest, library.below)) {
      throw new Unsupported(`not supported (supported: ${library.lowest} up to but not including ${library.below})`);
    }
    library.hook(patch, exports, version);
    report(library.name, version, '');
  } catch (error) {
    patch.undo();
    report(
      library.name,
      version,
      error instanceof Unsupported ? error.message : `could not be hooked: ${String(error)}`,
    );
  }
}

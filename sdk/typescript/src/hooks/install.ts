/** Installs the hooks, once per process, whichever copy of the SDK comes first. */

import { syncBuiltinESMExports } from 'node:module';
import http = require('node:http');
import https = require('node:https');
import { isMainThread } from 'node:worker_threads';
import { complain } from '../complain';
import { Process, thisProcess } from '../scope/process';
import { VERSION } from '../version';
import { lookIntoBundle } from './bundle';
import { hookClient } from './grpc-client';
import { hookServer } from './grpc-server';
import { hookHttpClient } from './http-client';
import { hookHttpServer } from './http-server';
import { hookOne, Library, Told, watch } from './libraries';
import { Loose, Patch } from './patch';
import { watchFastify } from './routes';
import { hookFetch, hookUndici } from './undici';

/** What the copy that was installed first left for others. */
interface Installed {
  readonly version: string;
  /** See installInto. */
  hook(name: string, exports: object, version: string): void;
}

const INSTALLED = Symbol.for('faultloom.installed');
const shared = globalThis as unknown as Record<symbol, Installed | undefined>;

/** The libraries that are hooked when they are loaded. */
function libraries(process: Process): Library[] {
  return [
    {
      name: '@grpc/grpc-js',
      file: 'build/src/index.js',
      lowest: '1.8.0',
      below: '2',
      hook(patch, exports) {
        hookClient(patch, exports);
        hookServer(patch, exports, process);
      },
    },
    { name: 'undici', file: 'index.js', lowest: '5.20.0', below: '9', hook: hookUndici },
    // their routes are read from the request
    { name: 'express', file: 'index.js', lowest: '4.0.0', below: '6', hook: () => undefined },
    { name: 'fastify', file: 'fastify.js', lowest: '4.0.0', below: '6', hook: () => undefined },
  ];
}

/**
 * Hooks what is loaded and what will be. Without trust settings nothing is hooked: such a process could neither hear an
 * envelope nor send one. Never throws.
 */
export function install(environment: NodeJS.ProcessEnv = process.env): void {
  if (shared[INSTALLED] !== undefined) {
    return;
  }
  shared[INSTALLED] = { version: VERSION, hook: () => undefined };
  try {
    const here = thisProcess();
    // a file may become valid later, and is then followed
    if (here.receiver.source.settings() !== null || (environment['FAULTLOOM_TRUST_FILE'] ?? '') !== '') {
      const known = libraries(here);
      const told = new Set<string>();
      const tell = tellTo(here, told);
      shared[INSTALLED] = { version: VERSION, hook: (name, exports, version) => hookInlined(known, name, exports, version, tell) };
      hookNode(here, tell);
      watch(known, tell);
      lookIntoBundle((name, reason) => told.has(name) || tell(name, '', reason));
    }
    if (isMainThread) {
      here.status?.write();
    }
  } catch (error) {
    complain(`not installed: ${String(error)}`);
  }
}

/** Hooks a copy of a library that is not loaded from a file of its own, because a bundle has it inlined. */
export function installInto(name: string, exports: object, version: string): void {
  install();
  shared[INSTALLED]?.hook(name, exports, version);
}

function hookInlined(known: readonly Library[], name: string, exports: object, version: string, tell: Told): void {
  const library = known.find((one) => one.name === name);
  if (library !== undefined) {
    hookOne(library, exports as Loose, version, tell);
  }
}

/** Node's own HTTP, which is there already. */
function hookNode(here: Process, tell: Told): void {
  const patch = new Patch();
  try {
    hookHttpServer(patch, http.Server, here);
    hookHttpServer(patch, https.Server, here);
    hookHttpClient(patch, http, 80);
    hookHttpClient(patch, https, 443);
    hookFetch(patch);
    watchFastify();
    syncBuiltinESMExports();
    tell('node:http', process.versions.node, '');
  } catch (error) {
    patch.undo();
    syncBuiltinESMExports();
    tell('node:http', process.versions.node, `could not be hooked: ${String(error)}`);
  }
}

function tellTo(process: Process, told: Set<string>): Told {
  return (name, version, reason) => {
    told.add(name);
    // the threads of a process share its status file; the main one writes it
    const status = isMainThread ? process.status : null;
    if (reason === '') {
      status?.hooked(name, version);
    } else {
      complain(`${name}${version === '' ? '' : ` ${version}`} ${reason}; it is left as it is, its messages are not seen`);
      status?.refused(name, version, reason);
    }
  };
}

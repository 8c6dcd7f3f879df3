/** Installs the hooks, once per process, even if several copies of the SDK are loaded. */

import { syncBuiltinESMExports } from 'node:module';
import http = require('node:http');
import http2 = require('node:http2');
import https = require('node:https');
import { isMainThread } from 'node:worker_threads';
import { StatusFile } from '../entry/status';
import { thisProcess } from '../entry/this-process';
import type { Process } from '../scope/process';
import { VERSION } from '../version';
import { warn } from '../warn';
import { checkBundle } from './bundle-check';
import { hookClient } from './grpc/client';
import { hookServer } from './grpc/server';
import { hookHttpClient } from './http/client';
import { hookExpress } from './http/express-routes';
import { watchFastify } from './http/fastify-routes';
import { hookKoa } from './http/koa-routes';
import { hookHttpServer } from './http/server';
import { hookHttp2Client } from './http2/client';
import { hookHttp2Server } from './http2/server';
import { hookLibrary, hookWhenLoaded, Library, ReportLibrary } from './module-loader';
import { Loose, Patch } from './patch';
import { hookFetch, hookUndici } from './undici/dispatcher';

/** Set by the copy of the SDK that was installed first. */
interface Installation {
  readonly version: string;
  /** See installInto. */
  hook(name: string, exports: object, version: string): void;
}

const INSTALLED = Symbol.for('faultloom.installed');
const shared = globalThis as unknown as Record<symbol, Installation | undefined>;

/** The libraries that are hooked when they are loaded. */
function supportedLibraries(process: Process): Library[] {
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
    // their routes are read; Nest is built on Express or Fastify
    { name: 'express', file: 'index.js', lowest: '4.0.0', below: '6', hook: hookExpress },
    { name: 'koa', file: 'lib/application.js', lowest: '2.0.0', below: '4', hook: hookKoa },
    // announces its instances; nothing is replaced
    { name: 'fastify', file: 'fastify.js', lowest: '4.0.0', below: '6', hook: () => undefined },
  ];
}

/**
 * Hooks the libraries that are loaded and those that will be. Without trust settings nothing is hooked, because such a
 * process can neither accept nor send an envelope. Never throws.
 */
export function install(environment: NodeJS.ProcessEnv = process.env): void {
  if (shared[INSTALLED] !== undefined) {
    return;
  }
  shared[INSTALLED] = { version: VERSION, hook: () => undefined };
  try {
    const local = thisProcess();
    const { source } = local.receiver;
    // the threads of a process share its status file, which the main thread writes
    const status = isMainThread ? StatusFile.fromEnvironment(environment, local.name, () => source.state()) : null;
    // a trust file is followed even if it is not valid yet
    if (source.settings() !== null || (environment['FAULTLOOM_TRUST_FILE'] ?? '') !== '') {
      const libraries = supportedLibraries(local);
      const reported = new Set<string>();
      const report = reportTo(status, reported);
      shared[INSTALLED] = {
        version: VERSION,
        hook: (name, exports, version) => hookInlined(libraries, name, exports, version, report),
      };
      hookNode(local, report);
      hookHttp2(local, report);
      hookWhenLoaded(libraries, report);
      checkBundle((name, reason) => reported.has(name) || report(name, '', reason));
    }
    status?.write();
  } catch (error) {
    warn(`not installed: ${String(error)}`);
  }
}

/** Hooks a copy of a library that is inlined in a bundle and therefore not loaded from its own file. */
export function installInto(name: string, exports: object, version: string): void {
  install();
  shared[INSTALLED]?.hook(name, exports, version);
}

function hookInlined(
  libraries: readonly Library[],
  name: string,
  exports: object,
  version: string,
  report: ReportLibrary,
): void {
  const library = libraries.find((one) => one.name === name);
  if (library !== undefined) {
    hookLibrary(library, exports as Loose, version, report);
  }
}

/** Hooks Node's own http, https and fetch, which are always loaded. */
function hookNode(local: Process, report: ReportLibrary): void {
  const patch = new Patch();
  try {
    hookHttpServer(patch, http.Server, local);
    hookHttpServer(patch, https.Server, local);
    hookHttpClient(patch, http, 80);
    hookHttpClient(patch, https, 443);
    hookFetch(patch);
    watchFastify();
    syncBuiltinESMExports();
    report('node:http', process.versions.node, '');
  } catch (error) {
    patch.undo();
    syncBuiltinESMExports();
    report('node:http', process.versions.node, `could not be hooked: ${String(error)}`);
  }
}

/** Hooks Node's http2. It is reported only if it cannot be hooked. */
function hookHttp2(local: Process, report: ReportLibrary): void {
  const patch = new Patch();
  try {
    hookHttp2Server(patch, http2, local);
    hookHttp2Client(patch, http2);
  } catch (error) {
    patch.undo();
    report('node:http2', process.versions.node, `could not be hooked: ${String(error)}`);
  }
  syncBuiltinESMExports();
}

function reportTo(status: StatusFile | null, reported: Set<string>): ReportLibrary {
  return (name, version, reason) => {
    reported.add(name);
    if (reason === '') {
      status?.hooked(name, version);
    } else {
      warn(
        `${name}${version === '' ? '' : ` ${version}`} ${reason}; it is left unchanged and its messages are not traced`,
      );
      status?.refused(name, version, reason);
    }
  };
}

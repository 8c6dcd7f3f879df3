/** A file that tells `faultloom doctor` what this process can see. A folder that cannot be written is ignored. */

import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { VERSION } from '../version';

/** What became of a library's hook; `reason` is empty unless it was refused. */
export interface Library {
  name: string;
  version: string;
  state: 'hooked' | 'refused';
  reason: string;
}

export class Status {
  private readonly libraries = new Map<string, Library>();
  private readonly path: string;

  /** `trust`: `keys`, or why the SDK is deaf. */
  constructor(
    private readonly folder: string,
    private readonly service: string,
    private readonly trust: () => string,
  ) {
    this.path = join(folder, `${service.replace(/[^A-Za-z0-9._-]/g, '_')}.${process.pid}.json`);
  }

  /** By FAULTLOOM_STATUS; null if it is not set. */
  static fromEnvironment(environment: NodeJS.ProcessEnv, service: string, trust: () => string): Status | null {
    const folder = environment['FAULTLOOM_STATUS'];
    return folder === undefined || folder === '' ? null : new Status(folder, service, trust);
  }

  /** A library was hooked. Several copies of one version count once. */
  hooked(name: string, version: string): void {
    this.set({ name, version, state: 'hooked', reason: '' });
  }

  /** A library was left alone. */
  refused(name: string, version: string, reason: string): void {
    this.set({ name, version, state: 'refused', reason });
  }

  private set(library: Library): void {
    this.libraries.set(`${library.name}@${library.version}`, library);
    this.write();
  }

  /** Writes the file, whole or not at all. */
  write(): void {
    const text = JSON.stringify({
      service: this.service,
      pid: process.pid,
      sdk: 'node',
      version: VERSION,
      runtime: process.version,
      trust: this.trust(),
      libraries: [...this.libraries.values()],
    });
    try {
      if (!existsSync(this.folder)) {
        mkdirSync(this.folder); // not recursively: below /proc that never comes back (Node 20)
      }
      const part = `${this.path}.part`;
      writeFileSync(part, `${text}\n`);
      renameSync(part, this.path);
    } catch {
      // read-only, full or somebody else's: the application does not care
    }
  }
}

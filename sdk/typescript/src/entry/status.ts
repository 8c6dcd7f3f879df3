/**
 * The status file, from which `faultloom doctor` reads what is hooked in this process. A folder that is not writable is
 * ignored.
 */

import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { VERSION } from '../version';

/** The state of a library's hook; `reason` is empty unless it was refused. */
export interface LibraryStatus {
  name: string;
  version: string;
  state: 'hooked' | 'refused';
  reason: string;
}

export class StatusFile {
  private readonly libraries = new Map<string, LibraryStatus>();
  private readonly path: string;

  /** `trust`: see TrustSource.state. */
  constructor(
    private readonly folder: string,
    private readonly service: string,
    private readonly trust: () => string,
  ) {
    this.path = join(folder, `${service.replace(/[^A-Za-z0-9._-]/g, '_')}.${process.pid}.json`);
  }

  /** Reads FAULTLOOM_STATUS; null if it is not set. */
  static fromEnvironment(environment: NodeJS.ProcessEnv, service: string, trust: () => string): StatusFile | null {
    const folder = environment['FAULTLOOM_STATUS'];
    return folder === undefined || folder === '' ? null : new StatusFile(folder, service, trust);
  }

  /** Records that a library is hooked. Several copies of one version are one entry. */
  hooked(name: string, version: string): void {
    this.set({ name, version, state: 'hooked', reason: '' });
  }

  /** Records that a library is not hooked. */
  refused(name: string, version: string, reason: string): void {
    this.set({ name, version, state: 'refused', reason });
  }

  private set(library: LibraryStatus): void {
    this.libraries.set(`${library.name}@${library.version}`, library);
    this.write();
  }

  /** Writes the file atomically. */
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
        mkdirSync(this.folder); // not recursive: below /proc a recursive mkdir never returns (Node 20)
      }
      const part = `${this.path}.part`;
      writeFileSync(part, `${text}\n`);
      renameSync(part, this.path);
    } catch {
      // the folder is read-only, full or owned by somebody else; the application continues without the file
    }
  }
}

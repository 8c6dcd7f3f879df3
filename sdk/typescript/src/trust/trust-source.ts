/**
 * The source of the trust settings. A trust file is reloaded when it changes; that is how keys rotate and how all
 * faults are disabled at once. The file is checked at most every 200 ms, and only when settings are requested.
 */

import { readFileSync, statSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { warn } from '../warn';
import { TrustError, TrustSettings } from './settings';

const CHECK_INTERVAL_MS = 200;
const NO_SETTINGS = 'no trust settings';

export class TrustSource {
  private current: TrustSettings | null = null;
  private nextCheckMs = 0;
  /** Identifies the version of the file, or the error, that was handled last. */
  private fileVersion = '';
  private reason = NO_SETTINGS;

  /** `path`: the file to follow, or null for settings that never change. */
  private constructor(private readonly path: string | null) {}

  /** Reads FAULTLOOM_TRUST_FILE, else FAULTLOOM_TRUST. */
  static fromEnvironment(environment: NodeJS.ProcessEnv): TrustSource {
    const path = environment['FAULTLOOM_TRUST_FILE'];
    if (path !== undefined && path !== '') {
      return TrustSource.fromFile(path);
    }
    const source = new TrustSource(null);
    const text = environment['FAULTLOOM_TRUST'];
    if (text !== undefined && text !== '') {
      source.apply(text);
    }
    return source;
  }

  /** Follows a file. */
  static fromFile(path: string): TrustSource {
    return new TrustSource(path);
  }

  /** Settings that never change; null means none. */
  static fixed(settings: TrustSettings | null): TrustSource {
    const source = new TrustSource(null);
    source.current = settings;
    return source;
  }

  /** The current settings, or null. */
  settings(): TrustSettings | null {
    if (this.path !== null) {
      const now = performance.now();
      if (now >= this.nextCheckMs) {
        this.nextCheckMs = now + CHECK_INTERVAL_MS;
        this.checkFile(this.path);
      }
    }
    return this.current;
  }

  /** For the status file: `keys`, or the reason why there are none. */
  state(): string {
    const settings = this.settings();
    if (settings === null) {
      return this.reason;
    }
    return settings.keys.length > 0 ? 'keys' : 'no key in the trust settings';
  }

  private checkFile(path: string): void {
    let version = '';
    try {
      const stat = statSync(path, { bigint: true });
      version = `${stat.mtimeNs} ${stat.size}`;
      if (version === this.fileVersion) {
        return;
      }
      this.apply(new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path)));
      this.fileVersion = version;
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? 'not UTF-8';
      const failure = `failed ${code} ${version}`;
      if (this.fileVersion !== failure) {
        warn(`the trust file cannot be read (${code}): tracing is off until it can`);
      }
      this.fileVersion = failure;
      this.reason = `the trust file cannot be read (${code})`;
      this.current = null;
    }
  }

  private apply(text: string): void {
    try {
      this.current = TrustSettings.parse(text);
    } catch (error) {
      if (!(error instanceof TrustError)) {
        throw error;
      }
      warn(`${error.message}: tracing is off`);
      this.reason =
        error.line > 0 ? `line ${error.line} of the trust settings` : 'no environment in the trust settings';
      this.current = null;
    }
  }
}

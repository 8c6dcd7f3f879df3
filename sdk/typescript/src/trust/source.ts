/**
 * Where settings come from. With a file they follow it: that is how keys rotate and how a switch stops every fault at once.
 * The file is looked at no more often than every 200 ms, and only when somebody asks.
 */

import { readFileSync, statSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { complain } from '../complain';
import { parseSettings, Settings, TrustError } from './settings';

const LOOK_EVERY_MS = 200;
const NONE = 'no trust settings';

export class Source {
  private current: Settings | null = null;
  private nextLook = 0;
  private seen = '';
  private reason = NONE;

  /** A file to follow, or null. */
  private constructor(private readonly path: string | null) {}

  /** FAULTLOOM_TRUST_FILE, else FAULTLOOM_TRUST, else none. */
  static fromEnvironment(environment: NodeJS.ProcessEnv): Source {
    const path = environment['FAULTLOOM_TRUST_FILE'];
    if (path !== undefined && path !== '') {
      return Source.file(path);
    }
    const source = new Source(null);
    const text = environment['FAULTLOOM_TRUST'];
    if (text !== undefined && text !== '') {
      source.take(text);
    }
    return source;
  }

  /** Follows a file. */
  static file(path: string): Source {
    return new Source(path);
  }

  /** Settings that stay; null: deaf. */
  static fixed(settings: Settings | null): Source {
    const source = new Source(null);
    source.current = settings;
    return source;
  }

  /** The settings as they are now, or null: deaf. */
  settings(): Settings | null {
    if (this.path !== null) {
      const now = performance.now();
      if (now >= this.nextLook) {
        this.nextLook = now + LOOK_EVERY_MS;
        this.look(this.path);
      }
    }
    return this.current;
  }

  /** `keys`, or why the SDK is deaf. */
  state(): string {
    const settings = this.settings();
    if (settings === null) {
      return this.reason;
    }
    return settings.keys.length > 0 ? 'keys' : 'no key in the trust settings';
  }

  private look(path: string): void {
    let seen = '';
    try {
      const stat = statSync(path, { bigint: true });
      seen = `${stat.mtimeNs} ${stat.size}`;
      if (seen === this.seen) {
        return;
      }
      this.take(new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path)));
      this.seen = seen;
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? 'not UTF-8';
      const problem = `problem ${code} ${seen}`;
      if (this.seen !== problem) {
        complain(`the trust file cannot be read (${code}): deaf until it can`);
      }
      this.seen = problem;
      this.reason = `the trust file cannot be read (${code})`;
      this.current = null;
    }
  }

  private take(text: string): void {
    try {
      this.current = parseSettings(text);
    } catch (error) {
      if (!(error instanceof TrustError)) {
        throw error;
      }
      complain(`${error.message}: deaf`);
      this.reason = error.line > 0 ? `line ${error.line} of the trust settings` : 'no environment in the trust settings';
      this.current = null;
    }
  }
}

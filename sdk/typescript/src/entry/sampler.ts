/** Samples one in N of the requests without an envelope, at random; they are traced from here on. */

import { warn } from '../warn';

const MAX_N = 1_000_000;

export class Sampler {
  /** Samples one in `n`. */
  constructor(
    readonly n: number,
    private readonly random: () => number = Math.random,
  ) {}

  /** Reads FAULTLOOM_SAMPLE. Null if it is not set, or, with a warning, if it is invalid or nothing is exported. */
  static fromEnvironment(environment: NodeJS.ProcessEnv, exports: boolean): Sampler | null {
    const text = environment['FAULTLOOM_SAMPLE'];
    if (text === undefined || text === '') {
      return null;
    }
    const digits = /^1\/([1-9][0-9]{0,6})$/.exec(text)?.[1];
    const n = Number(digits);
    if (digits === undefined || n > MAX_N) {
      warn(`FAULTLOOM_SAMPLE is not 1/N with N from 1 to ${MAX_N}: sampling is off`);
      return null;
    }
    if (!exports) {
      warn('FAULTLOOM_SAMPLE needs FAULTLOOM_EXPORT, the http:// address of an OTLP endpoint: sampling is off');
      return null;
    }
    return new Sampler(n);
  }

  sample(): boolean {
    return this.random() * this.n < 1;
  }
}

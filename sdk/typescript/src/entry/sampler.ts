/** Which of the requests that arrive without an envelope are traced from here on: one in N, at random. */

import { complain } from '../complain';

const MAX_N = 1_000_000;

export class Sampler {
  /** Draws one in `n`. */
  constructor(
    readonly n: number,
    private readonly random: () => number = Math.random,
  ) {}

  /** By FAULTLOOM_SAMPLE, which needs somewhere to export to; else null, and one line says so. */
  static fromEnvironment(environment: NodeJS.ProcessEnv, exports: boolean): Sampler | null {
    const text = environment['FAULTLOOM_SAMPLE'];
    if (text === undefined || text === '') {
      return null;
    }
    const digits = /^1\/([1-9][0-9]{0,6})$/.exec(text)?.[1];
    const n = Number(digits);
    if (digits === undefined || n > MAX_N) {
      complain(`FAULTLOOM_SAMPLE is not 1/N with N from 1 to ${MAX_N}: sampling is off`);
      return null;
    }
    if (!exports) {
      complain('FAULTLOOM_SAMPLE needs FAULTLOOM_EXPORT, the http:// address of an OTLP endpoint: sampling is off');
      return null;
    }
    return new Sampler(n);
  }

  draw(): boolean {
    return this.random() * this.n < 1;
  }
}

/** Why data is not available, in the form of the tool's failures: what, why and what to do next. */
export type FailureReason =
  'no-session' | 'refused' | 'gone' | 'unfinished' | 'newer' | 'not-embedded' | 'offline' | 'other';

export class SourceFailure extends Error {
  constructor(
    readonly reason: FailureReason,
    readonly what: string,
    readonly why = '',
    readonly next = '',
  ) {
    super(what);
  }
}

/** Anything that was thrown, as a failure. */
export function failureOf(thrown: unknown): SourceFailure {
  if (thrown instanceof SourceFailure) return thrown;
  return new SourceFailure('other', thrown instanceof Error ? thrown.message : String(thrown));
}

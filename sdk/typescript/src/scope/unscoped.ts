/** Calls that belong to no request. */

/** A call without a scope. Equal ones are counted together. */
export interface UnscopedCall {
  readonly http: boolean;
  readonly peer: string;
  /** The gRPC method, or "METHOD /path", normalized. */
  readonly name: string;
  /** Where the program made the call, or empty. */
  readonly site: string;
}

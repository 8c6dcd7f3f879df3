/** The gRPC codes that the SDK uses. A call that fails without a reply is recorded with one, also an HTTP call. */

export const OK = 0;
export const CANCELLED = 1;
export const UNKNOWN = 2;
export const DEADLINE_EXCEEDED = 4;
export const INTERNAL = 13;
export const UNAVAILABLE = 14;
/** The largest code of the protocol. */
export const MAX_CODE = 16;

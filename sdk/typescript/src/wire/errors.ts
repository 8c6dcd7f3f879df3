/** The stable codes of spec/errors.json that concern an SDK, in the order of the checks. */
export type ErrorCode =
  | 'oversized'
  | 'malformed'
  | 'unsupported_version'
  | 'unsigned'
  | 'unknown_key'
  | 'bad_signature'
  | 'wrong_environment'
  | 'expired'
  | 'expiry_too_far'
  | 'plan_not_permitted'
  | 'too_many_faults'
  | 'unknown_fault'
  | 'replayed'
  | 'envelope_too_large';

/**
 * Thrown by encoders and decoders. Receivers return the code instead, so that rejecting an untrusted envelope does not
 * cost a stack trace.
 */
export class FaultloomError extends Error {
  constructor(readonly code: ErrorCode) {
    super(`faultloom: ${code}`);
    this.name = 'FaultloomError';
  }
}

/** The stable codes of spec/errors.json that an SDK can meet: why an envelope was refused, in the order of the checks. */
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

/** What encoders and decoders throw. Receivers return the code instead: refusing a stranger's envelope should cost no stack trace. */
export class FaultloomError extends Error {
  constructor(readonly code: ErrorCode) {
    super(`faultloom: ${code}`);
    this.name = 'FaultloomError';
  }
}

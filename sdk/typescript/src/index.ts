/**
 * Faultloom for Node.js: traces a request through services message by message and injects planned faults at exact
 * moments, where messages are serialized (3MileBeach).
 *
 * Applications do not need this module. It is for programs that start traced requests, such as tests. Without trust
 * settings (FAULTLOOM_TRUST_FILE or FAULTLOOM_TRUST) the SDK does nothing.
 */

export { Options, start, Started } from './start';
export { Key, TrustError, TrustSettings } from './trust/settings';
export { SPEC_VERSION, VERSION } from './version';
export type { Uint64 } from './wire/bytes';
export { CallId } from './wire/callid';
export { ErrorCode, FaultloomError } from './wire/errors';
export { decodeHistory, Event, History, Segment } from './wire/history';
export { After, fault, Fault, Kind } from './wire/plan';
export { Selector } from './wire/selector';

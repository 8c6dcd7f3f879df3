/**
 * Faultloom for Node.js: traces a request through services message by message and injects planned faults at exact moments,
 * where messages are serialized (3MileBeach).
 *
 * Most programs never import this. It is for those that start requests themselves, as tests do. Without trust settings
 * (FAULTLOOM_TRUST_FILE or FAULTLOOM_TRUST) everything is inert.
 */

export { Options, start, Started } from './start';
export { Key, parseSettings, Settings, TrustError } from './trust/settings';
export { SPEC_VERSION, VERSION } from './version';
export type { Whole } from './wire/bytes';
export { CallId } from './wire/callid';
export { ErrorCode, FaultloomError } from './wire/errors';
export { decodeHistory, Event, History, Segment } from './wire/history';
export { After, fault, Fault, Kind } from './wire/plan';
export { Selector } from './wire/selector';

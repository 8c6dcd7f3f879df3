/** The carrier of a history in the headers of an HTTP reply. */

import { lastValue, mayHaveTail } from '../../wire/carrier';
import { decodeHeader, HISTORY_HEADER, HTTP_HEADER, REPLY_HEADER } from '../../wire/envelope';
import { canDecode } from './body';

/** The headers of a reply, by lower-case name. */
export interface ReplyHeaders {
  /** The value of a header, several lines joined by commas. */
  get(name: string): string | undefined;
  remove(name: string): void;
  set(name: string, value: string): void;
}

/**
 * Where the history is: (`tail`) after a body in the content coding `coding`, or in a trailer, or, if there is none, in
 * `history`, or nowhere.
 */
export interface ReplyCarrier {
  readonly tail: boolean;
  /** Whether the history is in a trailer. Only http2 reads those. */
  readonly trailer: boolean;
  readonly coding: string;
  readonly history: Buffer | null;
}

const NO_CARRIER: ReplyCarrier = { tail: false, trailer: false, coding: '', history: null };

function ownValue(headers: ReplyHeaders, name: string): string | undefined {
  const joined = headers.get(name);
  return joined === undefined ? undefined : lastValue(joined);
}

/** Removes the history from trailers and returns it, or null. */
export function takeTrailer(trailers: ReplyHeaders): Buffer | null {
  const value = ownValue(trailers, HISTORY_HEADER);
  trailers.remove(HISTORY_HEADER);
  return value === undefined ? null : (decodeHeader(value) ?? null);
}

/** Reads our headers and removes them, so that an application that forwards the reply does not forward them. */
export function takeReplyCarrier(headers: ReplyHeaders, status: number): ReplyCarrier {
  const value = ownValue(headers, HISTORY_HEADER);
  const mark = ownValue(headers, REPLY_HEADER);
  if (value === undefined && mark === undefined) {
    return NO_CARRIER;
  }
  headers.remove(HISTORY_HEADER);
  headers.remove(REPLY_HEADER);
  const vary = headers.get('vary');
  if (vary !== undefined) {
    const others = vary.split(',').filter((one) => one.trim().toLowerCase() !== HTTP_HEADER);
    if (others.length === 0) {
      headers.remove('vary');
    } else {
      headers.set('vary', others.join(',').trim());
    }
  }
  const coding = (headers.get('content-encoding') ?? '').trim().toLowerCase();
  return {
    tail: mark === 'tail' && mayHaveTail(status) && canDecode(coding),
    trailer: mark === 'trailer',
    coding,
    history: value === undefined ? null : (decodeHeader(value) ?? null),
  };
}

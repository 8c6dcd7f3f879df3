/** The carrier of a history in the headers of an HTTP reply. */

import { decodeHeader, HISTORY_HEADER, HTTP_HEADER, REPLY_HEADER } from '../../wire/envelope';
import { canDecode } from './body';

/** The headers of a reply, by lower-case name. */
export interface ReplyHeaders {
  get(name: string): string | undefined;
  remove(name: string): void;
  set(name: string, value: string): void;
}

/** Where the history is: in `history`, or (`tail`) after a body in the content coding `coding`, or nowhere. */
export interface ReplyCarrier {
  readonly tail: boolean;
  readonly coding: string;
  readonly history: Buffer | null;
}

const NO_CARRIER: ReplyCarrier = { tail: false, coding: '', history: null };

/** Reads our headers and removes them, so that an application that forwards the reply does not forward them. */
export function takeReplyCarrier(headers: ReplyHeaders): ReplyCarrier {
  const value = headers.get(HISTORY_HEADER);
  const mark = headers.get(REPLY_HEADER);
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
    tail: mark === 'tail' && canDecode(coding),
    coding,
    history: value === undefined ? null : (decodeHeader(value) ?? null),
  };
}

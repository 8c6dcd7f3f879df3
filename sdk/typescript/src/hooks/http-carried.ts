/** What the headers of an HTTP reply say about its history. */

import { fromHeader, HISTORY_HEADER, HTTP_HEADER, REPLY_HEADER } from '../wire/envelope';
import { canUndo } from './http-body';

/** A reply's headers, by lower-case names. */
export interface ReplyHeaders {
  get(name: string): string | undefined;
  remove(name: string): void;
  set(name: string, value: string): void;
}

/** How the history comes: in `history`, or (`tail`) behind a body of that `coding`, or not at all. */
export interface Carried {
  readonly tail: boolean;
  readonly coding: string;
  readonly history: Buffer | null;
}

const NOTHING: Carried = { tail: false, coding: '', history: null };

/** Reads our headers and removes them: who passes a reply on must not pass on these. */
export function takeCarried(headers: ReplyHeaders): Carried {
  const carried = headers.get(HISTORY_HEADER);
  const mark = headers.get(REPLY_HEADER);
  if (carried === undefined && mark === undefined) {
    return NOTHING;
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
  return { tail: mark === 'tail' && canUndo(coding), coding, history: carried === undefined ? null : (fromHeader(carried) ?? null) };
}

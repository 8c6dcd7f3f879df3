/** Numbers, times and outcomes as text. */

const NARROW = '\u202f';

/** `16,384` */
export const count = (value: number): string => value.toLocaleString('en-US');

/** `1 case`, `16,384 cases` */
export const counted = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? '' : 's'}`;

/** `40 µs`, `1.2 ms`, `3.4 s`, `2 min 5 s` */
export function duration(us: number): string {
  if (us < 1000) return `${Math.round(us)}${NARROW}µs`;
  if (us < 1e6) return `${digits(us / 1e3)}${NARROW}ms`;
  if (us < 60e6) return `${digits(us / 1e6)}${NARROW}s`;
  const seconds = Math.round(us / 1e6);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}${NARROW}min ${seconds % 60}${NARROW}s`;
  return `${Math.floor(seconds / 3600)}${NARROW}h ${Math.floor((seconds % 3600) / 60)}${NARROW}min`;
}

/** A moment of an axis whose ticks are `step` apart: with as many digits as neighbors need to differ. */
export function tickText(us: number, step: number): string {
  const [unit, name] = us < 1e3 ? [1, 'µs'] : us < 1e6 ? [1e3, 'ms'] : [1e6, 's'];
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / unit) - 1e-9)));
  return `${(us / unit).toFixed(digits)}${NARROW}${name}`;
}

/** Two significant digits below ten, whole numbers from a hundred on. */
function digits(value: number): string {
  return value < 9.95 ? value.toFixed(1) : Math.round(value).toString();
}

/** `1.2 kB`, decimal units */
export function size(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let at = 0;
  let value = bytes;
  while (value >= 999.5 && at < units.length - 1) [value, at] = [value / 1000, at + 1];
  return `${at === 0 ? value : digits(value)}${NARROW}${units[at]}`;
}

/** `9.1 %`, `0.03 %`, `0 %`, `100 %` */
export function percent(share: number): string {
  const value = share * 100;
  if (value === 0 || value === 100) return `${value}${NARROW}%`;
  const text = value < 0.1 ? value.toPrecision(1) : value < 99.95 ? value.toFixed(1) : '> 99.9';
  return `${text}${NARROW}%`;
}

/** `Nov 26, 10:02`; with the year if it is another one. */
export function moment(ms: number, nowMs: number): string {
  const date = new Date(ms);
  const isThisYear = date.getFullYear() === new Date(nowMs).getFullYear();
  return date.toLocaleString('en-US', {
    ...(isThisYear ? {} : { year: 'numeric' }),
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    hour12: false,
  });
}

/** `5 min ago`; the moment itself after a day. */
export function ago(ms: number, nowMs: number): string {
  const seconds = Math.max(0, Math.round((nowMs - ms) / 1000));
  if (seconds < 60) return 'just now';
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return moment(ms, nowMs);
}

const GRPC = [
  'OK',
  'Cancelled', // words: allow, a name of the protocol
  'Unknown',
  'InvalidArgument',
  'DeadlineExceeded',
  'NotFound',
  'AlreadyExists',
  'PermissionDenied',
  'ResourceExhausted',
  'FailedPrecondition',
  'Aborted',
  'OutOfRange',
  'Unimplemented',
  'Internal',
  'Unavailable',
  'DataLoss',
  'Unauthenticated',
];

/** `500`, `Unavailable` */
export function status(value: number | null, isHttp: boolean): string {
  if (value === null) return 'no reply';
  return isHttp ? String(value) : (GRPC[value] ?? `code ${value}`);
}

const ENDINGS: Record<string, string> = {
  'returned-error': 'error',
  crashed: 'crash',
  'no-reply': 'no reply',
  'wrong-content': 'wrong content',
  'too-slow': 'too slow',
};

export const ending = (value: string): string => ENDINGS[value] ?? value;

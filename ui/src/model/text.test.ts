import { describe, expect, it } from 'vitest';
import { ago, count, counted, duration, percent, size, status, tickText } from './text.ts';

const spaced = (text: string) => text.replaceAll('\u202f', ' ');

describe('texts', () => {
  it('of durations have two or three digits and a unit', () => {
    const of = (us: number) => spaced(duration(us));
    expect([of(0), of(40), of(999), of(1200), of(9960), of(38_200), of(3_400_000), of(125_000_000)]).toEqual([
      '0 µs',
      '40 µs',
      '999 µs',
      '1.2 ms',
      '10 ms',
      '38 ms',
      '3.4 s',
      '2 min 5 s',
    ]);
    expect(of(3_660_000_000)).toBe('1 h 1 min');
  });

  it('of neighbors on an axis differ', () => {
    expect([0, 5000, 10_000].map((us) => spaced(tickText(us, 5000)))).toEqual(['0 µs', '5 ms', '10 ms']);
    expect([57_000_100, 57_000_200].map((us) => spaced(tickText(us, 100)))).toEqual(['57.0001 s', '57.0002 s']);
    expect(spaced(tickText(1500, 500))).toBe('1.5 ms');
  });

  it('of shares never round an exception away', () => {
    const of = (share: number) => spaced(percent(share));
    expect([of(0), of(0.0003), of(0.091), of(0.99999), of(1)]).toEqual(['0 %', '0.03 %', '9.1 %', '> 99.9 %', '100 %']);
  });

  it('of counts and sizes', () => {
    expect(count(16384)).toBe('16,384');
    expect([counted(1, 'case'), counted(2, 'case')]).toEqual(['1 case', '2 cases']);
    expect([size(12), size(1200), size(999_600)].map(spaced)).toEqual(['12 B', '1.2 kB', '1.0 MB']);
  });

  it('of statuses depend on the protocol', () => {
    expect([status(500, true), status(14, false), status(99, false), status(null, true)]).toEqual([
      '500',
      'Unavailable',
      'code 99',
      'no reply',
    ]);
  });

  it('of moments are relative within a day', () => {
    const now = 1_800_000_000_000;
    expect([ago(now - 5000, now), ago(now - 300_000, now), ago(now - 7_200_000, now)]).toEqual([
      'just now',
      '5 min ago',
      '2 h ago',
    ]);
  });
});

import { expect, it } from 'vitest';
import { format, parse, patched } from './address.ts';
import { placeOf, to } from './place.ts';

it('an address survives reading and writing', () => {
  for (const text of ['/runs', '/r/1/behaviors?bug=1,2&space=temporal', '/r/a%2Fb/trace/bug-1?call=12']) {
    expect(format(parse(text))).toBe(text);
  }
  expect(parse('').path).toBe('/');
});

it('a patch sets, replaces and removes values', () => {
  const address = parse('/r/1?a=1&b=2');
  expect(format(patched(address, { a: null, b: 3, c: '' }))).toBe('/r/1?b=3');
  expect(format(address)).toBe('/r/1?a=1&b=2');
});

it('hostile values stay values', () => {
  const text = format(patched(parse('/runs'), { q: '<a>&b=#c?"' }));
  expect(parse(text).query.get('q')).toBe('<a>&b=#c?"');
  expect(text).not.toContain('#');
});

it('each screen has an address', () => {
  expect(placeOf('/')).toEqual({ screen: 'runs' });
  expect(placeOf(to.run('a/b'))).toEqual({ screen: 'run', run: 'a/b', view: null });
  expect(placeOf(to.run('1', 'flips'))).toEqual({ screen: 'run', run: '1', view: 'flips' });
  expect(placeOf(to.trace('1', 'behavior-00ff'))).toEqual({ screen: 'trace', run: '1', which: 'behavior-00ff' });
  const [first, other] = [
    { run: '1', which: 'main' },
    { run: '2', which: 'bug-1' },
  ];
  expect(placeOf(to.diff(first, other))).toEqual({ screen: 'diff', first, other });
  expect(placeOf('/diff/1..2')).toEqual({ screen: 'diff', first, other: { run: '2', which: 'main' } });
});

it('other paths are unknown', () => {
  for (const path of ['/x', '/r', '/r/1/x', '/diff/1', '/diff/..', '/r/1/flips/2']) {
    expect(placeOf(path), path).toEqual({ screen: 'unknown' });
  }
  expect(placeOf('/r/%E0%A4%A')).toEqual({ screen: 'run', run: '%E0%A4%A', view: null });
});

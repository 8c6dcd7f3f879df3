import { expect, it } from 'vitest';
import { again, quoted } from './command.ts';

it('a known command keeps its options and gets other faults', () => {
  const known = `faultloom record -H 'A: b' http://h/ --fault 'ads unavailable' --fault 'x/Y delay 2s'`;
  expect(again(known, 'GET http://h/', ['currency/Convert#3 unavailable'])).toBe(
    `faultloom record -H 'A: b' http://h/ --fault 'currency/Convert#3 unavailable'`,
  );
});

it('without one, the method and the URL are used', () => {
  expect(again(undefined, 'POST http://h/a', ['x unavailable'])).toBe(
    `faultloom record -X POST 'http://h/a' --fault 'x unavailable'`,
  );
  expect(again(undefined, 'GET http://h/', [])).toBe(`faultloom record 'http://h/'`);
  expect(again(undefined, 'GET http://h/?a=1&b=$(x)', [])).toBe(`faultloom record 'http://h/?a=1&b=$(x)'`);
});

it('there is none for a request that is in a file', () => {
  expect(again('faultloom record --spec /x/bug-1.json', 'GET http://h/', ['x unavailable'])).toBe('');
  expect(again(undefined, 'imported', [])).toBe('');
});

it('a shell gets the text unchanged', () => {
  expect(quoted(`it's`)).toBe(`'it'\\''s'`);
  expect(again(`f --fault 'it'\\''s' --fault x`, '', ["a'b"])).toBe(`f --fault 'a'\\''b'`);
});

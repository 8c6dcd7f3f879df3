import { expect, it } from 'vitest';
import { nameOf } from './keys.tsx';

const press = (key: string, ...held: ('ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey')[]) =>
  nameOf({
    key,
    ctrlKey: false,
    metaKey: false,
    altKey: false,
    shiftKey: false,
    ...Object.fromEntries(held.map((one) => [one, true])),
  });

it('keys have one name on all systems', () => {
  expect([press('j'), press('N', 'shiftKey'), press('?', 'shiftKey')]).toEqual(['j', 'N', '?']);
  expect([press('k', 'ctrlKey'), press('k', 'metaKey')]).toEqual(['Ctrl+K', 'Ctrl+K']);
  expect([press('Enter', 'shiftKey'), press('Escape')]).toEqual(['Shift+Enter', 'Escape']);
});

it('a bracket that needs AltGr is a bracket', () => {
  expect([press('[', 'ctrlKey', 'altKey'), press(']', 'altKey')]).toEqual(['[', ']']);
  expect(press('a', 'altKey')).toBe('Alt+a');
});

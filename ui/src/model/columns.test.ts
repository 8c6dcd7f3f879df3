import { describe, expect, it } from 'vitest';
import { at, bytes, NONE, numbers } from './columns.ts';

const base64 = (list: number[]) => Buffer.from(list).toString('base64');

describe('columns', () => {
  it('are little-endian numbers of 32 bits', () => {
    expect([...numbers(base64([1, 0, 0, 0, 0, 1, 0, 0, 255, 255, 255, 255]))]).toEqual([1, 256, NONE]);
  });

  it('may be empty', () => {
    expect(numbers('').length).toBe(0);
    expect(bytes('').length).toBe(0);
  });

  it('are refused if they end within a number', () => {
    expect(() => numbers(base64([1, 2, 3]))).toThrow('3 bytes');
  });

  it('have rows without a value', () => {
    const column = Uint32Array.of(7, NONE);
    expect(at(column, 0)).toBe(7);
    expect(at(column, 1)).toBeUndefined();
  });
});

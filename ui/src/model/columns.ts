/** Columns of numbers: base64 text of little-endian bytes, decoded once into a typed array. */

/** Stands for no value. */
export const NONE = 0xffff_ffff;

const IS_LITTLE_ENDIAN = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

export function bytes(column: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native !== undefined) return native(column);
  const text = atob(column);
  const out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) out[i] = text.charCodeAt(i);
  return out;
}

export function numbers(column: string): Uint32Array<ArrayBuffer> {
  const raw = bytes(column);
  if (raw.byteLength % 4 !== 0) throw new Error(`a column of ${raw.byteLength} bytes`);
  if (IS_LITTLE_ENDIAN && raw.byteOffset % 4 === 0) return new Uint32Array(raw.buffer, raw.byteOffset, raw.length / 4);
  const view = new DataView(raw.buffer, raw.byteOffset);
  return Uint32Array.from({ length: raw.length / 4 }, (_, i) => view.getUint32(i * 4, true));
}

/** The value of a row; none as undefined. */
export function at(column: Uint32Array, row: number): number | undefined {
  const value = column[row];
  return value === NONE ? undefined : value;
}

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import { encoderFor, INVALID } from './body-encoder';

const DECODERS = { gzip: gunzipSync, 'x-gzip': gunzipSync, deflate: inflateSync, br: brotliDecompressSync };

for (const [coding, decode] of Object.entries(DECODERS)) {
  test(`a body in ${coding} is decoded to what was encoded`, () => {
    for (const sizes of [[], [0], [1], [3, 200_000, 0, 65_535, 65_536]]) {
      const parts = sizes.map((size, n) => Buffer.alloc(size, `part ${n}`));
      const encoder = encoderFor(coding)!;
      const encoded = Buffer.concat([...parts.map((part) => encoder.encode(part)), encoder.end()]);
      assert.deepEqual(decode(encoded), Buffer.concat(parts));
    }
  });

  test(`a body in ${coding} that breaks off is not valid`, () => {
    const encoder = encoderFor(coding)!;
    const begin = encoder.encode(Buffer.from('abc'));
    assert.throws(() => decode(begin));
    assert.throws(() => decode(Buffer.concat([begin, INVALID])));
  });
}

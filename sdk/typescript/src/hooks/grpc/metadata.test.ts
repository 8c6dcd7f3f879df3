/** Envelopes in the metadata of each supported version of the library. */

import * as assert from 'node:assert/strict';
import { sensitiveHeaders } from 'node:http2';
import { test } from 'node:test';
import { GRPC_KEY } from '../../wire/envelope';
import { Loose, Unsupported } from '../patch';
import { instrument, LibraryCall } from './intercept';
import { hasKey, setOwnValue } from './metadata';
import type { Metadata } from './status';

for (const name of ['@grpc/grpc-js', 'grpc-js-1.10', 'grpc-js-1.8']) {
  test(`${name}: an envelope is sent as base64 and stays out of the HPACK table`, () => {
    const grpc = require(name) as Loose;
    const value = Buffer.from([0xfb, 0xff, 0, 1]);
    const metadata = new grpc['Metadata']() as Metadata;
    metadata.set('other', 'text');
    metadata.set(GRPC_KEY, Buffer.from('forwarded by a proxy'));
    setOwnValue(metadata, value);
    const headers = (metadata.clone() as unknown as Loose)['toHttp2Headers']() as Loose;
    // older versions make a list of it
    assert.deepEqual([headers[GRPC_KEY]].flat(), [value.toString('base64')]);
    assert.deepEqual([headers['other']].flat(), ['text']);
    assert.deepEqual(headers[sensitiveHeaders], [GRPC_KEY]);
    const read = grpc['Metadata'].fromHttp2Headers(headers) as Metadata;
    assert.deepEqual(read.get(GRPC_KEY), [value]);
    assert.deepEqual([hasKey(read, GRPC_KEY), hasKey(read, 'baggage')], [true, false]);
    const others = new grpc['Metadata']() as Loose;
    others['set']('other', 'text');
    assert.deepEqual(Reflect.ownKeys(others['toHttp2Headers']() as object), ['other']);
  });
}

test('hasKey works with metadata of an unknown internal form', () => {
  const metadata = { get: (key: string) => (key === 'baggage' ? ['a=b'] : []) } as Metadata;
  assert.deepEqual([hasKey(metadata, 'baggage'), hasKey(metadata, GRPC_KEY)], [true, false]);
});

test('a call of an unknown class is left unchanged', () => {
  const start = (): void => undefined;
  const call = { start } as unknown as LibraryCall;
  assert.throws(() => instrument(call), Unsupported);
  assert.equal(call.start, start);
  assert.equal('sendMessageWithContext' in Object.prototype, false);
});

/** How an envelope leaves in metadata of each version of the library. */

import * as assert from 'node:assert/strict';
import { sensitiveHeaders } from 'node:http2';
import { test } from 'node:test';
import { GRPC_KEY } from '../wire/envelope';
import { has, setOwn } from './grpc-metadata';
import type { Metadata } from './grpc-status';
import { know, Wire } from './grpc-wire';
import { Loose, Unsupported } from './patch';

for (const name of ['@grpc/grpc-js', 'grpc-js-1.10', 'grpc-js-1.8']) {
  test(`${name}: an envelope leaves as base64 and stays out of HPACK's table`, () => {
    const grpc = require(name) as Loose;
    const value = Buffer.from([0xfb, 0xff, 0, 1]);
    const metadata = new grpc['Metadata']() as Metadata;
    metadata.set('other', 'text');
    metadata.set(GRPC_KEY, Buffer.from('what a proxy forwards'));
    setOwn(metadata, value);
    const headers = (metadata.clone() as unknown as Loose)['toHttp2Headers']() as Loose;
    // older versions make a list of it
    assert.deepEqual([headers[GRPC_KEY]].flat(), [value.toString('base64')]);
    assert.deepEqual([headers['other']].flat(), ['text']);
    assert.deepEqual(headers[sensitiveHeaders], [GRPC_KEY]);
    const read = grpc['Metadata'].fromHttp2Headers(headers) as Metadata;
    assert.deepEqual(read.get(GRPC_KEY), [value]);
    assert.deepEqual([has(read, GRPC_KEY), has(read, 'baggage')], [true, false]);
    const others = new grpc['Metadata']() as Loose;
    others['set']('other', 'text');
    assert.deepEqual(Reflect.ownKeys(others['toHttp2Headers']() as object), ['other']);
  });
}

test('metadata that keep their values elsewhere are asked for them', () => {
  const metadata = { get: (key: string) => (key === 'baggage' ? ['a=b'] : []) } as Metadata;
  assert.deepEqual([has(metadata, 'baggage'), has(metadata, GRPC_KEY)], [true, false]);
});

test('a call of an unknown make is left as it is', () => {
  const start = (): void => undefined;
  const wire = { start } as unknown as Wire;
  assert.throws(() => know(wire), Unsupported);
  assert.equal(wire.start, start);
  assert.equal('sendMessageWithContext' in Object.prototype, false);
});

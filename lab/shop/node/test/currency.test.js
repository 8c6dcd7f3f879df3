'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { status } = require('@grpc/grpc-js');
const { methods } = require('../currency');
const { shop } = require('../service');
const { startService } = require('./client');

const MAX_INT64 = '9223372036854775807';
const REFUSED = null;

test('amounts are converted exactly, and invalid ones are refused', async (t) => {
  const currency = await startService(t, shop.Currency, methods);
  for (const [from, to, hundredths, expected] of [
    ['USD', 'USD', '1234', '1234'],
    ['USD', 'EUR', '1450', '1334'],
    ['USD', 'JPY', '1450', '218950'],
    ['EUR', 'USD', '92', '100'],
    ['EUR', 'USD', '1', '1'], // 1.087
    ['JPY', 'USD', '75', '0'],
    ['JPY', 'USD', '76', '1'], // 0.503
    ['USD', 'EUR', '0', '0'],
    ['USD', 'EUR', MAX_INT64, '8485502273906393742'],
    ['USD', 'JPY', MAX_INT64, REFUSED],
    ['USD', 'EUR', '-1', REFUSED],
    ['USD', 'SEK', '1', REFUSED],
    ['USD', 'eur', '1', REFUSED],
    ['', 'EUR', '1', REFUSED],
    ['constructor', 'EUR', '1', REFUSED],
  ]) {
    const reply = currency.Convert({ from: { currency: from, hundredths }, to });
    if (expected === REFUSED) {
      await assert.rejects(reply, { code: status.INVALID_ARGUMENT }, `${from} ${to} ${hundredths}`);
    } else {
      assert.deepEqual({ ...(await reply) }, { currency: to, hundredths: expected });
    }
  }
});

test('an error names the reason', async (t) => {
  const currency = await startService(t, shop.Currency, methods);
  await assert.rejects(currency.Convert({ to: 'EUR' }), { details: 'no rate from "" to "EUR"' });
  const negative = { from: { currency: 'USD', hundredths: '-1' }, to: 'EUR' };
  await assert.rejects(currency.Convert(negative), { details: 'amount -1 out of range' });
});

test('currencies are sorted', async (t) => {
  const { codes } = await (await startService(t, shop.Currency, methods)).GetCurrencies({});
  assert.equal(codes.length, 8);
  assert.deepEqual(codes, [...codes].sort());
});

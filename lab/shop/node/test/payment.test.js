'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { status } = require('@grpc/grpc-js');
const { isValidCard, payment } = require('../payment');
const { shop } = require('../service');
const { startService } = require('./client');

const CARD = '4000 0000 0000 0002';

function charge({ user = 'ann', card = CARD, hundredths = 100, order_id = 'order-1' } = {}) {
  return { order_id, user, card, amount: { currency: 'EUR', hundredths } };
}

test('every charge is recorded, even a second one for the same order', async (t) => {
  const { Charge, ListCharges } = await startService(t, shop.Payment, payment());
  const first = await Charge(charge());
  assert.equal(first.id, 'charge-0bafe221');
  assert.deepEqual(await Charge(charge()), first);
  await Charge(charge({ user: 'bob' }));
  assert.deepEqual((await ListCharges({ user: 'ann' })).charges, [first, first]);
});

test('refused charges are not recorded', async (t) => {
  const { Charge, ListCharges } = await startService(t, shop.Payment, payment());
  for (const [request, refused] of [
    [charge({ card: '4000 0000 0000 0003' }), { code: status.FAILED_PRECONDITION, details: 'card declined' }],
    [charge({ hundredths: 0 }), { code: status.INVALID_ARGUMENT, details: 'nothing to pay' }],
    [charge({ hundredths: -5 }), { code: status.INVALID_ARGUMENT, details: 'nothing to pay' }],
    [
      { ...charge(), amount: null },
      { code: status.INVALID_ARGUMENT, details: 'nothing to pay' },
    ],
  ]) {
    await assert.rejects(Charge(request), refused);
  }
  assert.deepEqual((await ListCharges({ user: 'ann' })).charges, []);
});

test('the last thousand charges are kept', async (t) => {
  const { Charge, ListCharges } = await startService(t, shop.Payment, payment());
  await Charge(charge({ order_id: 'the oldest' }));
  for (let i = 0; i < 1000; i++) {
    await Charge(charge());
  }
  const { charges } = await ListCharges({ user: 'ann' });
  assert.equal(charges.length, 1000);
  assert.ok(charges.every(({ order_id }) => order_id === 'order-1'));
});

test('cards are validated', () => {
  assert.ok(isValidCard(CARD));
  assert.ok(isValidCard('4000-0000-0000-0002'));
  for (const card of ['', '0', '4000 0000 0000 0001', '4000 0000 000x 0002', '٤'.repeat(16), '0'.repeat(20)]) {
    assert.ok(!isValidCard(card), card);
  }
});

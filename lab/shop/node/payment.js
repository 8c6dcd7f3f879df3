/**
 * The payment service: it charges cards.
 *
 * Every accepted Charge is one more charge, also for an order already paid: it is for the caller not to ask twice. The last
 * thousand charges are remembered until the process stops.
 */

'use strict';

const { createHash } = require('node:crypto');
const { status } = require('@grpc/grpc-js');
const { main, refusal, shop } = require('./service');

const REMEMBERED = 1000;

/** The service's methods, with a memory of their own. */
function payment() {
  const receipts = [];
  return {
    /** Charges a card. INVALID_ARGUMENT: nothing to pay. FAILED_PRECONDITION: the card's number is not a possible one. */
    Charge({ request }, reply) {
      const { order_id, user, card, amount } = request;
      if (amount === null || Number(amount.hundredths) <= 0 || amount.currency === '') {
        reply(refusal(status.INVALID_ARGUMENT, 'nothing to pay'));
        return;
      }
      if (!plausible(card)) {
        reply(refusal(status.FAILED_PRECONDITION, 'card declined'));
        return;
      }
      const id = `charge-${createHash('sha256').update(order_id).digest('hex').slice(0, 8)}`;
      const receipt = { id, order_id, user, amount };
      receipts.push(receipt);
      if (receipts.length > REMEMBERED) {
        receipts.shift();
      }
      reply(null, receipt);
    },

    /** What a user was charged, oldest first. */
    ListCharges({ request }, reply) {
      reply(null, { charges: receipts.filter((receipt) => receipt.user === request.user) });
    },
  };
}

/** Has `card` 12 to 19 digits, spaces and dashes aside, and the check digit of ISO/IEC 7812 (Luhn)? */
function plausible(card) {
  const number = card.replaceAll(' ', '').replaceAll('-', '');
  if (!/^[0-9]{12,19}$/.test(number)) {
    return false;
  }
  let total = 0;
  for (let place = 0; place < number.length; place++) {
    const value = Number(number[number.length - 1 - place]) * (1 + (place % 2));
    total += value > 9 ? value - 9 : value;
  }
  return total % 10 === 0;
}

module.exports = { payment, plausible };

if (require.main === module) {
  main('payment', shop.Payment.service, payment());
}

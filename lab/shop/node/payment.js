/**
 * The payment service charges cards.
 *
 * Every accepted Charge is a new charge, even for an order that has been paid: the caller must avoid duplicates. The
 * last thousand charges are kept in memory.
 */

'use strict';

const { createHash } = require('node:crypto');
const { status } = require('@grpc/grpc-js');
const { errorReply, main, shop } = require('./service');

const MAX_RECEIPTS = 1000;

/** Creates the service's methods, with their own list of charges. */
function payment() {
  const receipts = [];
  return {
    /** Charges a card. INVALID_ARGUMENT: nothing to pay. FAILED_PRECONDITION: the card's number is invalid. */
    Charge({ request }, reply) {
      const { order_id, user, card, amount } = request;
      if (amount === null || Number(amount.hundredths) <= 0 || amount.currency === '') {
        reply(errorReply(status.INVALID_ARGUMENT, 'nothing to pay'));
        return;
      }
      if (!isValidCard(card)) {
        reply(errorReply(status.FAILED_PRECONDITION, 'card declined'));
        return;
      }
      const id = `charge-${createHash('sha256').update(order_id).digest('hex').slice(0, 8)}`;
      const receipt = { id, order_id, user, amount };
      receipts.push(receipt);
      if (receipts.length > MAX_RECEIPTS) {
        receipts.shift();
      }
      reply(null, receipt);
    },

    /** Lists the charges of a user, oldest first. */
    ListCharges({ request }, reply) {
      reply(null, { charges: receipts.filter((receipt) => receipt.user === request.user) });
    },
  };
}

/** Whether `card` has 12 to 19 digits, ignoring spaces and dashes, and a valid check digit (ISO/IEC 7812, Luhn). */
function isValidCard(card) {
  const number = card.replaceAll(' ', '').replaceAll('-', '');
  if (!/^[0-9]{12,19}$/.test(number)) {
    return false;
  }
  let total = 0;
  for (let i = 0; i < number.length; i++) {
    const value = Number(number[number.length - 1 - i]) * (1 + (i % 2));
    total += value > 9 ? value - 9 : value;
  }
  return total % 10 === 0;
}

module.exports = { isValidCard, payment };

if (require.main === module) {
  main('payment', shop.Payment.service, payment());
}

/**
 * The currency service lists the accepted currencies and converts amounts. Rates are fixed and amounts are integers in
 * hundredths, so equal requests always get equal replies.
 */

'use strict';

const { status } = require('@grpc/grpc-js');
const { errorReply, main, shop } = require('./service');

/** The value of a million USD in units of each currency. */
const UNITS_PER_MILLION_USD = new Map([
  ['AUD', 1_530_000],
  ['CHF', 880_000],
  ['CZK', 22_900_000],
  ['EUR', 920_000],
  ['GBP', 790_000],
  ['JPY', 151_000_000],
  ['NOK', 10_700_000],
  ['USD', 1_000_000],
]);

const LIST = { codes: [...UNITS_PER_MILLION_USD.keys()].sort() };

const MAX_INT64 = (1n << 63n) - 1n;

/**
 * amount * numerator / denominator, rounded half up. `amount` is a decimal string. Null if it is negative or the result
 * exceeds 64 bits.
 */
function scale(amount, numerator, denominator) {
  const small = Number(amount);
  if (small < 0) {
    return null;
  }
  const product = small * numerator + Math.floor(denominator / 2);
  if (product <= Number.MAX_SAFE_INTEGER) {
    return Math.floor(product / denominator);
  }
  const large = (BigInt(amount) * BigInt(numerator) + BigInt(denominator) / 2n) / BigInt(denominator);
  return large <= MAX_INT64 ? large.toString() : null;
}

const methods = {
  /** Lists the accepted currencies in alphabetical order. */
  GetCurrencies(_call, reply) {
    reply(null, LIST);
  },

  /**
   * Converts an amount to another currency, rounded half up. INVALID_ARGUMENT: the currency is unknown, or the amount
   * is negative or too large.
   */
  Convert({ request }, reply) {
    const { currency, hundredths } = request.from ?? { currency: '', hundredths: '0' };
    const from = UNITS_PER_MILLION_USD.get(currency);
    const to = UNITS_PER_MILLION_USD.get(request.to);
    if (from === undefined || to === undefined) {
      reply(
        errorReply(
          status.INVALID_ARGUMENT,
          `no rate from ${JSON.stringify(currency)} to ${JSON.stringify(request.to)}`,
        ),
      );
      return;
    }
    const amount = scale(hundredths, to, from);
    if (amount === null) {
      reply(errorReply(status.INVALID_ARGUMENT, `amount ${hundredths} out of range`));
      return;
    }
    reply(null, { currency: request.to, hundredths: amount });
  },
};

module.exports = { methods };

if (require.main === module) {
  main('currency', shop.Currency.service, methods);
}

/**
 * The currency service: which currencies the shop accepts and what an amount is worth in each. Rates are fixed and amounts are
 * whole hundredths, so equal questions always get equal answers.
 */

'use strict';

const { status } = require('@grpc/grpc-js');
const { main, refusal, shop } = require('./service');

/** How many units of each currency a million USD buys. */
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

/** amount * times / by, rounded half up; null if the amount is negative or the result does not fit. `amount` is decimal text. */
function scale(amount, times, by) {
  const small = Number(amount);
  if (small < 0) {
    return null;
  }
  const product = small * times + Math.floor(by / 2);
  if (product <= Number.MAX_SAFE_INTEGER) {
    return Math.floor(product / by);
  }
  const large = (BigInt(amount) * BigInt(times) + BigInt(by) / 2n) / BigInt(by);
  return large <= MAX_INT64 ? large.toString() : null;
}

const methods = {
  /** Lists the accepted currencies in alphabetical order. */
  GetCurrencies(_call, reply) {
    reply(null, LIST);
  },

  /**
   * The same value in another currency, rounded half up. INVALID_ARGUMENT: an unknown currency, a negative amount, or one too
   * large to count.
   */
  Convert({ request }, reply) {
    const { currency, hundredths } = request.from ?? { currency: '', hundredths: '0' };
    const from = UNITS_PER_MILLION_USD.get(currency);
    const to = UNITS_PER_MILLION_USD.get(request.to);
    if (from === undefined || to === undefined) {
      reply(refusal(status.INVALID_ARGUMENT, `no rate from ${JSON.stringify(currency)} to ${JSON.stringify(request.to)}`));
      return;
    }
    const amount = scale(hundredths, to, from);
    if (amount === null) {
      reply(refusal(status.INVALID_ARGUMENT, `amount ${hundredths} out of range`));
      return;
    }
    reply(null, { currency: request.to, hundredths: amount });
  },
};

module.exports = { methods };

if (require.main === module) {
  main('currency', shop.Currency.service, methods);
}

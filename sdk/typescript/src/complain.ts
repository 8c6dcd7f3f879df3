/** Standard error, where the SDK says what it cannot do. One line each, never a key, never an exception. */

import { writeSync } from 'node:fs';

export function complain(text: string): void {
  try {
    writeSync(2, `faultloom: ${text}\n`);
  } catch {
    // closed, or full and not blocking: nobody is left to be told
  }
}

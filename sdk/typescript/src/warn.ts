/** Warnings on standard error: one line each, without keys. Never throws. */

import { writeSync } from 'node:fs';

export function warn(message: string): void {
  try {
    writeSync(2, `faultloom: ${message}\n`);
  } catch {
    // standard error is closed, or full and non-blocking
  }
}

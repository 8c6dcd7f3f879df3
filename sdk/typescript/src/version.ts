/** Of this package, as in package.json (a test compares them), and of the format. */
export const VERSION = '0.1.0';
export const SPEC_VERSION = 1;

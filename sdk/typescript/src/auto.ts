/** `import 'faultloom/auto'` installs the hooks in programs that cannot be started with `--require`. */

// without any of these variables the SDK is not even loaded
const VARIABLES = ['FAULTLOOM_TRUST_FILE', 'FAULTLOOM_TRUST', 'FAULTLOOM_STATUS', 'FAULTLOOM_SAMPLE'];

if (VARIABLES.some((name) => (process.env[name] ?? '') !== '')) {
  (require('./hooks/install') as typeof import('./hooks/install')).install();
}

export {};

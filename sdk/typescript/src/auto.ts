/** `import 'faultloom/auto'`: installs the hooks, for programs that cannot be started with `--require`. */

// a program without settings for us loads nothing of us
const ASKED = ['FAULTLOOM_TRUST_FILE', 'FAULTLOOM_TRUST', 'FAULTLOOM_STATUS', 'FAULTLOOM_SAMPLE'];

if (ASKED.some((name) => (process.env[name] ?? '') !== '')) {
  (require('./hooks/install') as typeof import('./hooks/install')).install();
}

export {};

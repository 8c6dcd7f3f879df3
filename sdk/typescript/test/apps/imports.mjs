// One import before all others, for programs that cannot be started with --require.
import 'faultloom/auto';
await import('./modules.mjs');

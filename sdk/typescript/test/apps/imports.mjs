// One import in front of everything else, for programs that cannot be started with --require.
import 'faultloom/auto';
await import('./modules.mjs');

/** `import 'faultloom/auto'`: installs the hooks, for programs that cannot be started with `--require`. */

import { install } from './hooks/install';

install();

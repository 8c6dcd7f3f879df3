/**
 * `import 'faultloom/auto-grpc'` installs the hooks, including in a copy of @grpc/grpc-js that is inlined in a bundle.
 */

import grpc = require('@grpc/grpc-js');
import manifest = require('@grpc/grpc-js/package.json');
import { installInto } from './hooks/install';

installInto('@grpc/grpc-js', grpc, manifest.version);

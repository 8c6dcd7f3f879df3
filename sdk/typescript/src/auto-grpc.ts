/** `import 'faultloom/auto-grpc'`: installs the hooks, also into the copy of @grpc/grpc-js that a bundle has inlined. */

import grpc = require('@grpc/grpc-js');
import manifest = require('@grpc/grpc-js/package.json');
import { installInto } from './hooks/install';

installInto('@grpc/grpc-js', grpc, manifest.version);

/** A process that ends with 70 histories still to be handed over, in the way its second argument names. */

import { TestScope } from '../testing';
import { Exporter } from './exporter';

const [url, way] = process.argv.slice(2);
const exporter = Exporter.fromEnvironment({ FAULTLOOM_EXPORT: url })!;

// one of a full batch that leaves at once, so that something is on its way and something waits
for (let i = 0; i < 70; i++) {
  exporter.add({ trace: Buffer.alloc(16, i), hasParent: false, history: new TestScope().finish(0)! });
}

if (way === 'process.exit') {
  process.exit(3);
} else if (way === 'SIGTERM') {
  setInterval(() => undefined, 1000);
  process.send!('ready');
} else {
  process.disconnect();
}

/** A process that ends with 70 unsent histories; its second argument is the way in which it ends. */

import { TestScope } from '../testing';
import { Exporter } from './exporter';

const [url, way] = process.argv.slice(2);
const exporter = Exporter.fromEnvironment({ FAULTLOOM_EXPORT: url })!;
// the usual limit of one second may be too short on a busy machine
const flush = exporter.flush.bind(exporter);
exporter.flush = () => flush(60_000);

// a full batch is sent at once, so some histories are in flight and some are queued
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

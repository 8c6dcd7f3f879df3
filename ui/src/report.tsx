import { DATA_ELEMENT, EmbeddedSource } from './source/embedded.ts';
import { fragmentBar } from './state/address.ts';
import { to } from './state/place.ts';
import { start } from './page.tsx';

/**
 * An exported report. The document has the data and a core that reads without script, in `#page`; this replaces the
 * core. Without data, the core stays.
 */
if (document.getElementById(DATA_ELEMENT) !== null) {
  const source = EmbeddedSource.of(document);
  const [run] = source.runs();
  const element = document.getElementById('page') ?? document.body.appendChild(document.createElement('div'));
  element.id = 'page';
  if (location.hash === '' && run !== undefined) history.replaceState(null, '', `#${to.run(run)}`);
  start(element, source, fragmentBar(window));
}

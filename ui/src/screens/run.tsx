import { lazy, Suspense, type ReactNode } from 'react';
import { Facts, runFacts } from '../parts/facts.tsx';
import { Verdict } from '../parts/marks.tsx';
import { Loading } from '../parts/message.tsx';
import { Notes, NOTES_HEADING } from '../parts/notes.tsx';
import { count, counted } from '../model/text.ts';
import type { RunView } from '../model/view.ts';
import { to, type RunScreen } from '../state/place.ts';
import { Link } from '../state/router.tsx';
import { Behaviors } from './behaviors/behaviors.tsx';

const Recording = lazy(() => import('./recording.tsx'));
const MapScreen = lazy(() => import('./map/screen.tsx'));
const Flips = lazy(() => import('./flips/screen.tsx'));
const Plain = lazy(() => import('./plain.tsx'));

interface Tab {
  text: string;
  to: string;
  isHere: boolean;
}

/** A run: its head, which all of its screens have, and one of them. */
export function RunPage({ view, screen }: { view: RunView; screen: RunScreen | null }) {
  const own = screensOf(view);
  const here = screen !== null && own.some(([name]) => name === screen) ? screen : (own[0]?.[0] ?? 'requests');
  const tabs: Tab[] = own.map(([name, text]) => ({ text, to: to.run(view.run.id, name), isHere: name === here }));
  if (view.content.kind === 'sweep') {
    tabs.splice(1, 0, { text: 'Good request', to: to.trace(view.run.id, 'main'), isHere: false });
  }
  return (
    <>
      <RunHeading view={view} tabs={tabs} />
      <Suspense fallback={<Loading what="the screen" />}>{content(view, here)}</Suspense>
    </>
  );
}

/** The screens of a kind of run, the first one by default. */
function screensOf(view: RunView): [RunScreen, string][] {
  const content = view.content;
  switch (content.kind) {
    case 'sweep':
      return [['behaviors', 'Behaviors'], ...(content.sockets === null ? [] : [sockets])];
    case 'recording':
      return [['requests', 'Requests'], ...(content.sockets === null ? [] : [sockets])];
    case 'map':
      return [['map', 'Map']];
    case 'flip':
      return [['flips', 'Flips']];
    case 'plain':
      return [];
  }
}

const sockets: [RunScreen, string] = ['map', 'Sockets'];

function content(view: RunView, screen: RunScreen): ReactNode {
  const content = view.content;
  if (content.kind === 'flip') return <Flips run={view.run} view={content} />;
  if (content.kind === 'plain') return <Plain view={content} />;
  if (content.kind === 'map') return <MapScreen map={content} sockets={null} />;
  if (screen === 'map' && content.sockets !== null) {
    return <MapScreen map={content.sockets.map} sockets={content.sockets} />;
  }
  return content.kind === 'sweep' ? (
    <Behaviors run={view.run} sweep={content} />
  ) : (
    <Recording run={view.run} view={content} />
  );
}

function RunHeading({ view, tabs }: { view: RunView; tabs: Tab[] }) {
  const { run, notes } = view;
  const warnings = notes.filter((note) => note.is_warning).length;
  return (
    <header className="run-head">
      <div className="run-head-line">
        <Verdict run={run} />
        <h1>{run.title}</h1>
        <span className="soft summary">{run.summary}</span>
      </div>
      <div className="run-head-line">
        <nav className="tabs" aria-label="Screens of this run">
          {tabs.map((tab) => (
            <Link key={tab.to} to={tab.to} aria-current={tab.isHere ? 'page' : undefined}>
              {tab.text}
            </Link>
          ))}
        </nav>
        <details className="about-run">
          <summary>
            {warnings > 0 && (
              <span className="warning-mark">
                <span aria-hidden="true">!</span> {counted(warnings, 'warning')}
              </span>
            )}{' '}
            {NOTES_HEADING} <span className="soft">({count(notes.length)})</span> and facts
          </summary>
          <div className="about-run-body">
            <h2>{NOTES_HEADING}</h2>
            <Notes notes={notes} />
            <h2>Facts</h2>
            <Facts list={runFacts(run)} />
          </div>
        </details>
      </div>
    </header>
  );
}

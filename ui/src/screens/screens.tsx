import { lazy, Suspense, useEffect, useState } from 'react';
import { FailureMessage, Loading, When } from '../parts/message.tsx';
import { Help } from '../parts/help.tsx';
import { Masthead } from '../parts/masthead.tsx';
import { Palette } from '../parts/palette.tsx';
import { SourceFailure } from '../source/failure.ts';
import { useCache, useRun, useRuns } from '../source/use.ts';
import { useBindings, useKeys, type KeyBinding } from '../state/keys.tsx';
import { placeOf, to, type Place } from '../state/place.ts';
import { useRouter } from '../state/router.tsx';
import { RunPage } from './run.tsx';
import { Runs } from './runs.tsx';

const TraceScreen = lazy(() => import('./trace/screen.tsx'));
const DiffScreen = lazy(() => import('./diff.tsx'));

/** The whole page: the screen of the current address, and what every screen has. */
export function Screens() {
  const router = useRouter();
  const place = placeOf(router.address.path);
  const bindings = useBindings();
  const [help, setHelp] = useState<KeyBinding[] | null>(null);
  const [palette, setPalette] = useState<KeyBinding[] | null>(null);
  useKeys([
    { name: '?', does: 'Show the keys of this screen', run: () => setHelp(bindings()) },
    { name: 'Ctrl+K', does: '', run: () => setPalette(bindings()) },
  ]);
  const screen = place.screen === 'run' ? place.view : place.screen;
  useEffect(() => {
    window.scrollTo(0, 0);
  }, [router.address.path, screen]);
  return (
    <>
      <a className="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Masthead place={place} onHelp={() => setHelp(bindings())} onPalette={() => setPalette(bindings())} />
      <main id="main" tabIndex={-1}>
        <Suspense fallback={<Loading what="the screen" />}>
          <Screen place={place} />
        </Suspense>
      </main>
      {help !== null && <Help bindings={help} onClose={() => setHelp(null)} />}
      {palette !== null && <Palette bindings={palette} run={runOf(place)} onClose={() => setPalette(null)} />}
    </>
  );
}

/** The fragment of a report is its address, so the link must not change it. */
function skip(event: React.MouseEvent): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

export function runOf(place: Place): string | null {
  if (place.screen === 'run' || place.screen === 'trace') return place.run;
  return place.screen === 'diff' ? place.other.run : null;
}

function Screen({ place }: { place: Place }) {
  switch (place.screen) {
    case 'runs':
      return <Runs />;
    case 'run':
      return <OneRun run={place.run} place={place} />;
    case 'trace':
      return <TraceScreen run={place.run} which={place.which} />;
    case 'diff':
      return <DiffScreen first={place.first} other={place.other} />;
    default:
      return (
        <FailureMessage isPage failure={new SourceFailure('gone', 'There is no such page', '', `go to ${to.runs}`)} />
      );
  }
}

function OneRun({ run, place }: { run: string; place: Place & { screen: 'run' } }) {
  const loaded = useRun(run);
  const isLive = useCache().source.kind === 'api';
  return (
    <When loaded={loaded} what="the run" isPage>
      {(view) => (
        <>
          {isLive && <DeletedWarning run={view.run.id} />}
          <RunPage view={view} screen={place.view} />
        </>
      )}
    </When>
  );
}

/** Shown if the run is deleted while it is open. */
function DeletedWarning({ run }: { run: string }) {
  const list = useRuns();
  if (list.state !== 'ready' || list.value.has_more || list.value.runs.some((one) => one.id === run)) return null;
  return (
    <p className="banner" role="alert">
      This run was deleted. This page shows what was loaded before; nothing more can be loaded.
    </p>
  );
}

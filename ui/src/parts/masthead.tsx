import type { ReactNode } from 'react';
import { path } from '../source/source.ts';
import { useCache } from '../source/use.ts';
import { to, type Place } from '../state/place.ts';
import { Link } from '../state/router.tsx';
import { choose, useIsDark } from '../state/theme.ts';
import type { RunView } from '../model/view.ts';

/** The top line of every screen: the place within the page, search, theme and help. */
export function Masthead(props: { place: Place; onHelp: () => void; onPalette: () => void }) {
  const isDark = useIsDark();
  const cache = useCache();
  return (
    <header className="masthead">
      <Brand isLink={cache.source.kind === 'api'}>
        <svg viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
          <path d="M2 6h16M2 10h7M13 10h5M2 14h16" />
          <path d="M5 2v16M15 2v16" />
          <circle cx="11" cy="10" r="2.1" />
        </svg>
        Faultloom
      </Brand>
      <nav aria-label="Breadcrumb">
        {cache.source.kind === 'api' && props.place.screen !== 'runs' && <Link to={to.runs}>Runs</Link>}
        <Here place={props.place} />
      </nav>
      <div className="masthead-tools">
        <button type="button" className="button quiet" onClick={props.onPalette}>
          <span>Go to</span> <kbd>Ctrl K</kbd>
        </button>
        <button
          type="button"
          className="button quiet"
          aria-label={isDark ? 'Use light colors' : 'Use dark colors'}
          onClick={() => choose(isDark ? 'light' : 'dark')}
        >
          {isDark ? '☀' : '☾'}
        </button>
        <button type="button" className="button quiet" aria-label="Keys and help" onClick={props.onHelp}>
          ?
        </button>
      </div>
    </header>
  );
}

/** A file has no list of runs. */
function Brand({ isLink, children }: { isLink: boolean; children: ReactNode }) {
  if (!isLink) return <span className="brand">{children}</span>;
  return (
    <Link to={to.runs} className="brand">
      {children}
    </Link>
  );
}

function Here({ place }: { place: Place }) {
  if (place.screen === 'trace') {
    return (
      <>
        <RunLink run={place.run} />
        <span className="crumb">{place.which}</span>
      </>
    );
  }
  if (place.screen === 'diff') return <RunLink run={place.other.run} />;
  return null;
}

function RunLink({ run }: { run: string }) {
  const head = useCache().peek<RunView>(path.view(run))?.run;
  const text = head === undefined ? `run ${run.slice(-8)}` : `${head.kind} ${head.short_id}`;
  return (
    <Link to={to.run(run)} className="crumb">
      {text}
    </Link>
  );
}

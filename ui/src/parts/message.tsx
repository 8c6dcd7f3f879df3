import type { ReactNode } from 'react';
import type { Loaded } from '../source/cache.ts';
import type { SourceFailure } from '../source/failure.ts';
import { to } from '../state/place.ts';
import { Link } from '../state/router.tsx';

/** Why something cannot be shown, and what to do. */
export function FailureMessage({ failure, isPage = false }: { failure: SourceFailure; isPage?: boolean }) {
  const Heading = isPage ? 'h1' : 'h3';
  const isDone = failure.reason === 'no-session' || failure.reason === 'not-embedded';
  return (
    <div className={isPage ? 'message page' : 'message'} role="alert">
      <Heading>{failure.what}</Heading>
      {failure.why !== '' && <p>{failure.why}</p>}
      {failure.next !== '' && (
        <p>
          <b>Next:</b> {withCode(failure.next)}
        </p>
      )}
      {isPage && !isDone && (
        <p>
          <Link to={to.runs}>All runs</Link>
        </p>
      )}
    </div>
  );
}

/** Text between backticks is code. */
function withCode(text: string): ReactNode[] {
  return text.split('`').map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : part));
}

export function Loading({ what }: { what: string }) {
  return (
    <p className="loading" role="status">
      Loading {what}…
    </p>
  );
}

/** Shows data once it is there. */
export function When<T>(props: {
  loaded: Loaded<T>;
  what: string;
  isPage?: boolean;
  children: (value: T) => ReactNode;
}) {
  const { loaded, what, isPage = false, children } = props;
  if (loaded.state === 'loading') return <Loading what={what} />;
  if (loaded.state === 'failed') return <FailureMessage failure={loaded.failure} isPage={isPage} />;
  return children(loaded.value);
}

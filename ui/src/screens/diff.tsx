import { Tree } from '../parts/tree.tsx';
import { When } from '../parts/message.tsx';
import { Command } from '../parts/copy.tsx';
import type { RequestName } from '../source/source.ts';
import { useComparison } from '../source/use.ts';
import { to } from '../state/place.ts';
import { Link, useRouter } from '../state/router.tsx';
import { RunsCompared } from './runs_compared.tsx';
import { useKeys } from '../state/keys.tsx';

/** Two requests of any runs as one tree, on a full page. */
export default function DiffScreen({ first, other }: { first: RequestName; other: RequestName }) {
  const router = useRouter();
  const loaded = useComparison({ first, other });
  const swap = to.diff(other, first);
  const areRuns = first.which === 'main' && other.which === 'main' && first.run !== other.run;
  useKeys([{ name: 's', does: 'Swap the two requests', run: () => router.go(swap) }]);
  return (
    <div className="wide diff">
      <h1>Two requests compared</h1>
      <div className="toolbar">
        <span>
          <RequestLink name={first} /> <span aria-hidden="true">→</span> <RequestLink name={other} />
        </span>
        <Link className="button small" to={swap}>
          Swap <kbd>s</kbd>
        </Link>
      </div>
      <When loaded={loaded} what="both requests">
        {(comparison) => <Tree comparison={comparison} firstText={nameText(first)} />}
      </When>
      {areRuns && (
        <>
          <RunsCompared first={first.run} other={other.run} />
          <Command text={`faultloom diff ${first.run.slice(-8)} ${other.run.slice(-8)}`} label="In the terminal" />
        </>
      )}
    </div>
  );
}

function RequestLink({ name }: { name: RequestName }) {
  return <Link to={to.trace(name.run, name.which)}>{nameText(name)}</Link>;
}

/** `the good request of run 3e4f5a01` */
function nameText({ run, which }: RequestName): string {
  const [kind, number] = which.split('-');
  const request = which === 'main' ? 'the main request' : kind === 'behavior' ? 'a behavior' : `${kind} ${number}`;
  return `${request} of run ${run.slice(-8)}`;
}

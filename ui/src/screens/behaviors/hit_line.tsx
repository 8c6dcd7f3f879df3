import { cellOf, hits, type ShownColumn } from '../../model/sites.ts';
import { count } from '../../model/text.ts';
import type { Behavior, SweepView } from '../../model/view.ts';
import { hitText } from './head.tsx';

interface HitLineProps {
  sweep: SweepView;
  column: ShownColumn | undefined;
  behavior: Behavior | undefined;
}

/** The column of the cursor in words, and the legend. */
export function HitLine({ sweep, column, behavior }: HitLineProps) {
  return (
    <div className="hit-line">
      <p aria-live="polite">
        {column !== undefined && behavior !== undefined && (
          <>
            <b>{column.service === column.label ? column.service : `${column.service}/${column.label}`}</b>{' '}
            {column.kind}: {cellText(behavior, column)}. <Hits sweep={sweep} column={column} />
          </>
        )}
      </p>
      <ul className="legend" aria-label="Cells">
        <li>
          <span className="cell c-fired">↯</span> fired
        </li>
        <li>
          <span className="cell c-idle">○</span> planned, not reached
        </li>
        <li>
          <span className="cell c-none">·</span> not planned
        </li>
      </ul>
    </div>
  );
}

function cellText(behavior: Behavior, column: ShownColumn): string {
  const { fired, notReached } = cellOf(behavior, column);
  const of = column.sites.length === 1 ? '' : `${fired > 0 ? fired : notReached} of ${column.sites.length} `;
  if (fired > 0) return `${of}fired`;
  return notReached > 0 ? `${of}planned, not reached` : 'not planned';
}

function Hits({ sweep, column }: { sweep: SweepView; column: ShownColumn }) {
  const { failed, fired, planned } = hits(sweep.columns, column);
  const text = hitText(failed, fired);
  return (
    <span className={failed > 0 ? 'failing' : ''}>
      {text[0]?.toUpperCase()}
      {text.slice(1)}
      <span className="soft"> · planned in {count(planned)}</span>
    </span>
  );
}

import { hits, serviceGroups, type ShownColumn } from '../../model/sites.ts';
import { count } from '../../model/text.ts';
import type { SweepView } from '../../model/view.ts';

/** Columns from which a service's name fits above them. */
const NAME_MIN = 3;

interface HeadProps {
  sweep: SweepView;
  columns: ShownColumn[];
  open: ReadonlySet<number>;
  column: number;
  onToggleSeries: (series: number) => void;
}

/** Names of services and faults. The bar below a name: how often requests failed when the fault fired. */
export function TableHead({ sweep, columns, open, column, onToggleSeries }: HeadProps) {
  let at = -1;
  return (
    <div role="rowgroup" className="behaviors-head">
      <div role="row" aria-rowindex={1}>
        <div role="columnheader" className="row-name">
          <span className="hidden">Behavior</span>
        </div>
        {serviceGroups(columns).map((group) => (
          <div key={group.columns[0]?.id} className="group" role="presentation">
            {group.columns.length >= NAME_MIN && (
              <div className="group-name" aria-hidden="true" title={group.service}>
                {group.service}
              </div>
            )}
            <div className="group-columns" role="presentation">
              {group.columns.map((one) => {
                at += 1;
                return (
                  <ColumnHead
                    key={one.id}
                    sweep={sweep}
                    column={one}
                    isOpen={one.series !== null && open.has(one.series)}
                    isAt={at === column}
                    isNamed={group.columns.length >= NAME_MIN}
                    onToggle={onToggleSeries}
                  />
                );
              })}
            </div>
          </div>
        ))}
        <div role="columnheader" className="row-outcome">
          Outcome
        </div>
        <div role="columnheader" className="row-cases">
          Cases
        </div>
        <div role="columnheader" className="row-latency">
          Time
        </div>
      </div>
    </div>
  );
}

interface ColumnHeadProps {
  sweep: SweepView;
  column: ShownColumn;
  isOpen: boolean;
  isAt: boolean;
  /** Whether the service's name stands above. */
  isNamed: boolean;
  onToggle: (series: number) => void;
}

function ColumnHead({ sweep, column, isOpen, isAt, isNamed, onToggle }: ColumnHeadProps) {
  const { failed, fired } = hits(sweep.columns, column);
  const text = hitText(failed, fired);
  const series = column.series;
  const isWhole = column.label === column.service;
  const name = isNamed || isWhole ? column.label : `${column.service}/${column.label}`;
  const isFolded = series !== null && !isOpen;
  const label = (
    <span className="column-name">
      {name}
      {column.kind !== 'unavailable' && <span className="column-kind"> {column.kind}</span>}
    </span>
  );
  return (
    <div
      role="columnheader"
      className={`column${isAt ? ' at' : ''}${isFolded ? ' series' : ''}`}
      title={`${column.service} · ${column.label} · ${column.kind}\n${text}`}
    >
      {series === null ? (
        label
      ) : (
        <button
          type="button"
          tabIndex={-1}
          aria-expanded={isOpen}
          aria-label={`${column.service}/${column.label} ${column.kind}: ${isOpen ? 'fold the calls' : 'show each call'}`}
          onClick={(event) => {
            event.stopPropagation();
            onToggle(series);
          }}
        >
          {label}
        </button>
      )}
      <span className="hidden">{text}</span>
      <span className="hit-bar" aria-hidden="true">
        <i style={{ width: `${fired === 0 ? 0 : (100 * failed) / fired}%` }} />
      </span>
    </div>
  );
}

export function hitText(failed: number, fired: number): string {
  return fired === 0 ? 'never fired' : `failed when it fired: ${count(failed)} of ${count(fired)}`;
}

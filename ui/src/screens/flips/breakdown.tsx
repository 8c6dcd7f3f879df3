import { useState } from 'react';
import { errors, type FlipGroup } from '../../model/flips.ts';
import { count } from '../../model/text.ts';
import { Link, useRouter } from '../../state/router.tsx';
import { ShareBar, shareText } from './rates.tsx';

const ROWS = 14;

/** Rates by one property, each with its n. A click selects the flips below. */
export function Breakdown(props: { title: string; param: string; selected: string; rows: FlipGroup[] }) {
  const { title, param, selected, rows } = props;
  const router = useRouter();
  const [all, setAll] = useState(false);
  const most = Math.max(0.01, ...rows.map((row) => row.undetected?.high ?? 0));
  const shown = all ? rows : rows.slice(0, ROWS);
  return (
    <section className="breakdown" aria-label={title}>
      <h3>{title}</h3>
      {rows.length === 0 && <p className="soft">Nothing was flipped.</p>}
      <ul>
        {shown.map((row) => (
          <li key={row.key}>
            <Link
              to={router.with({ [param]: row.key === selected ? null : row.key })}
              aria-current={row.key === selected ? 'true' : undefined}
            >
              <code>{param === 'bit' ? `bit ${row.key}` : row.key}</code>
              <span className="soft">n = {count(errors(row.tally))}</span>
              {row.undetected !== null && <ShareBar share={row.undetected} most={most} />}
              <span className={row.tally.undetected > 0 ? 'wide-cell' : 'wide-cell soft'}>
                {count(row.tally.undetected)} undetected, {shareText(row.undetected)}
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {rows.length > ROWS && (
        <button type="button" className="button small" onClick={() => setAll(!all)}>
          {all ? 'Show fewer' : `Show all ${count(rows.length)}`}
        </button>
      )}
    </section>
  );
}

import { errors, flipped } from '../../model/flips.ts';
import { count, percent } from '../../model/text.ts';
import type { FlipView, ShareView } from '../../model/view.ts';
import { Link, useRouter } from '../../state/router.tsx';

/** A share as a bar and its interval as a line. */
export function ShareBar({ share, most }: { share: ShareView; most: number }) {
  const x = (value: number) => `${Math.min(100, (100 * value) / most)}%`;
  return (
    <span className="share-bar" aria-hidden="true">
      {share.share > 0 && <i style={{ width: x(share.share) }} />}
      <b style={{ left: x(share.low), width: `calc(${x(share.high)} - ${x(share.low)})` }} />
    </span>
  );
}

export function shareText(share: ShareView | null): string {
  if (share === null) return 'no errors';
  return `${percent(share.share)} [${percent(share.low)}, ${percent(share.high)}]`.replaceAll(' ', '\u00a0');
}

/** All programs side by side, by what was flipped. */
export function Rates({ view, selected }: { view: FlipView; selected: number }) {
  const router = useRouter();
  const shares = view.variants.flatMap((variant) => variant.rows.map((row) => row.undetected?.high ?? 0));
  const most = Math.max(0.01, ...shares);
  return (
    <div className="table-scroll" role="region" aria-label="Rates by program" tabIndex={0}>
      <table className="rates">
        <thead>
          <tr>
            <th scope="col">Program</th>
            <th scope="col">Flipped</th>
            <th scope="col" className="number">
              Flips
            </th>
            <th scope="col" className="number">
              Errors (n)
            </th>
            <th scope="col">Undetected</th>
            <th scope="col" className="number">
              Detected by hardening
            </th>
            <th scope="col" className="number">
              Crash, hang or error
            </th>
          </tr>
        </thead>
        {view.variants.map((variant, at) => (
          <tbody key={variant.name} className={at === selected ? 'selected' : ''}>
            {variant.rows.map((row, i) => (
              <tr key={row.name} className={row.is_within ? 'within' : ''}>
                {i === 0 && (
                  <th scope="rowgroup" rowSpan={variant.rows.length}>
                    <Link to={router.with({ variant: variant.name, fn: null, class: null, bit: null })}>
                      {variant.name}
                    </Link>
                  </th>
                )}
                <td>
                  <b>{row.name}</b> <span className="soft">{row.about}</span>
                </td>
                <td className="number">{count(flipped(row.tally))}</td>
                <td className="number">{count(errors(row.tally))}</td>
                <td>
                  {row.undetected !== null && <ShareBar share={row.undetected} most={most} />}
                  <span className={row.tally.undetected > 0 ? '' : 'soft'}>{shareText(row.undetected)}</span>
                </td>
                <td className="number">
                  {row.detected_by_hardening === null ? '–' : percent(row.detected_by_hardening.share)}
                </td>
                <td className="number">
                  {row.detected_otherwise === null ? '–' : percent(row.detected_otherwise.share)}
                </td>
              </tr>
            ))}
          </tbody>
        ))}
      </table>
    </div>
  );
}

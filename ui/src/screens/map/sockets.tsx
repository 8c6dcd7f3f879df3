import { count } from '../../model/text.ts';
import type { SocketsView } from '../../model/view.ts';

const OBSERVED: Record<string, string> = { both: 'both', sockets: 'sockets only', messages: 'messages only' };

/** Dependencies as recorded messages and the kernel's sockets show them; differences first. */
export function SocketTable({ sockets }: { sockets: SocketsView }) {
  const rows = [...sockets.rows].sort((a, b) => Number(a.observed_by === 'both') - Number(b.observed_by === 'both'));
  return (
    <section className="sockets" aria-label="Sockets beside messages">
      <h2>Sockets beside messages</h2>
      {sockets.remarks.map((remark) => (
        <p key={remark} className="soft">
          {remark}
        </p>
      ))}
      <div className="table-scroll" role="region" aria-label="Dependencies" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">From</th>
              <th scope="col">To</th>
              <th scope="col">Observed by</th>
              <th scope="col">Calls</th>
              <th scope="col">Connections</th>
              <th scope="col">Reason</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row, i) => (
              <tr key={i}>
                <td>{row.from}</td>
                <td>{row.to}</td>
                <td>{OBSERVED[row.observed_by]}</td>
                <td className="number">{count(row.calls)}</td>
                <td className="number">{count(row.connections)}</td>
                <td className="breaks">{row.reason}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

import { Command } from '../parts/copy.tsx';
import { status, count, counted, duration } from '../model/text.ts';
import { callAt, decodeTrace, type Trace } from '../model/trace.ts';
import type { RecordingView, RunHead } from '../model/view.ts';
import { useKeys } from '../state/keys.tsx';
import { to } from '../state/place.ts';
import { Link, useRouter } from '../state/router.tsx';
import { useMemo } from 'react';
import { TracePane } from './trace/pane.tsx';

/** The requests of a recording, and whether its planned faults fired. */
export default function Recording({ run, view }: { run: RunHead; view: RecordingView }) {
  const router = useRouter();
  const traces = useMemo(() => view.traces.map(decodeTrace), [view]);
  const wanted = Number(router.address.query.get('request') ?? 1);
  const at = Math.min(Math.max(1, wanted || 1), Math.max(1, traces.length));
  const current = traces[at - 1];
  const show = (request: number) => router.set({ request: request === 1 ? null : request, call: null });
  const socketsOf = (service: string) => `${to.run(run.id, 'map')}?q=${encodeURIComponent(service)}`;
  useKeys([
    { name: ']', does: 'Next request', run: () => show(Math.min(traces.length, at + 1)) },
    { name: '[', does: 'Previous request', run: () => show(Math.max(1, at - 1)) },
  ]);
  return (
    <div className="recording">
      <aside className="recording-side">
        <section aria-label="Requests">
          <h2>{counted(traces.length, 'request')}</h2>
          <ol className="requests">
            {traces.map((trace, i) => (
              <li key={i}>
                <Link
                  to={router.with({ request: i === 0 ? null : i + 1, call: null })}
                  aria-current={i + 1 === at ? 'true' : undefined}
                >
                  <RequestLine trace={trace} />
                </Link>
              </li>
            ))}
          </ol>
          {view.left_out > 0 && (
            <p className="soft">{counted(view.left_out, 'more request')} of this run are stored.</p>
          )}
          {current !== undefined && (
            <Link className="button small" to={to.trace(run.id, at === 1 ? 'main' : `request-${at}`)}>
              Full page
            </Link>
          )}
        </section>
        <section aria-label="Planned faults">
          <h2>Planned faults</h2>
          {view.faults.length === 0 ? (
            <p className="soft">None.</p>
          ) : (
            <ul className="planned">
              {view.faults.map((fault, i) => (
                <li key={i}>
                  <code className="chip">{fault.fault}</code>{' '}
                  {fault.fired === 0 ? (
                    <span className="warning-mark">
                      <span aria-hidden="true">!</span> never fired
                    </span>
                  ) : (
                    <span className="soft">fired {fault.fired === 1 ? 'once' : `${count(fault.fired)} times`}</span>
                  )}
                </li>
              ))}
            </ul>
          )}
        </section>
        {view.again !== '' && (
          <section aria-label="Send it again">
            <h2>Send it again</h2>
            <Command text={view.again} label="Send it again" />
          </section>
        )}
      </aside>
      <section className="recording-main" aria-label="The selected request">
        {current === undefined ? (
          <p className="soft">This run has no request.</p>
        ) : (
          <TracePane key={at} trace={current} {...(view.sockets !== null && { socketsOf })} />
        )}
      </section>
    </div>
  );
}

function RequestLine({ trace }: { trace: Trace }) {
  const entry = callAt(trace, 0);
  const isWrong = entry.outcome !== 0;
  return (
    <>
      <span className={isWrong ? 'failing' : ''}>
        {isWrong && <span aria-hidden="true">✕ </span>}
        {status(entry.status, entry.isHttp)}
      </span>{' '}
      <b className="breaks">{entry.label || entry.name}</b>
      <span className="soft">
        {' '}
        {duration(entry.durationUs)} · {counted(trace.rows - 1, 'call')}
        {trace.faults.length > 0 && ` · ${counted(trace.faults.length, 'fault')} fired`}
      </span>
    </>
  );
}

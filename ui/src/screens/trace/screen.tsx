import { When } from '../../parts/message.tsx';
import { useTrace } from '../../source/use.ts';
import { counted, duration } from '../../model/text.ts';
import { labelAt, type Trace } from '../../model/trace.ts';
import { TracePane } from './pane.tsx';

/** One request on a full page. */
export default function TraceScreen({ run, which }: { run: string; which: string }) {
  return (
    <div className="trace-screen">
      <When loaded={useTrace({ run, which })} what="the request" isPage>
        {(trace) => (
          <>
            <Heading trace={trace} />
            <TracePane trace={trace} />
          </>
        )}
      </When>
    </div>
  );
}

function Heading({ trace }: { trace: Trace }) {
  return (
    <div className="trace-heading">
      <h1>{labelAt(trace, 0) || 'Request'}</h1>
      <span className="soft">
        {duration(trace.extent * trace.usPerTick)} · {counted(Math.max(0, trace.rows - 1), 'call')} ·{' '}
        {counted(trace.services.length, 'service')} · trace <code>{trace.id}</code>
      </span>
    </div>
  );
}

import type { ReactNode } from 'react';
import { duration, status } from '../model/text.ts';
import type { CallDetails } from '../model/trace.ts';
import { Facts } from './facts.tsx';

const OUTCOMES = ['ok', 'error status', 'failed without a reply', 'open: the caller replied before it ended'];

/** One call in full. `beside`: the same call of another request, whose values are shown where they differ. */
export function CallCard(props: { call: CallDetails; beside?: CallDetails | null; besideText?: string }) {
  const { call, beside = null, besideText = '' } = props;
  const pair = (value: string, other: string | null): ReactNode =>
    other === null || other === value ? (
      value
    ) : (
      <>
        {value}{' '}
        <span className="soft">
          ({besideText}: {other})
        </span>
      </>
    );
  const result = (one: CallDetails) => {
    const text = one.status === null ? '' : status(one.status, one.isHttp);
    if (one.outcome === 0) return text || 'ok';
    return [text, OUTCOMES[one.outcome]].filter(Boolean).join(', ');
  };
  const list: [string, ReactNode][] = [
    ['Call', <code key="name">{call.name}</code>],
    ['From', call.caller || 'client'],
    ['To', `${call.service}${call.peer !== '' && call.peer !== call.service ? ` (${call.peer})` : ''}`],
    ['Result', pair(result(call), beside && result(beside))],
    ['Sent after', pair(duration(call.startUs), beside && duration(beside.startUs))],
    ['Took', pair(duration(call.durationUs), beside && duration(beside.durationUs))],
  ];
  if (call.calleeUs !== null) list.push(['Of it in the callee', duration(call.calleeUs)]);
  if (call.connectUs !== null) list.push(['To connect', duration(call.connectUs)]);
  for (const fault of call.faults)
    list.push([
      'Fault',
      <code key={fault} className="chip">
        {fault}
      </code>,
    ]);
  for (const gap of call.gaps) list.push(['Gap', gap]);
  if (call.faultsOff) list.push(['Faults', 'the callee has them off']);
  if (!call.isRecorded) list.push(['History', 'the callee returned none']);
  return <Facts list={list} />;
}

import type { Behavior, Latency } from '../../model/view.ts';

/** Times of all behaviors on one logarithmic scale. */
export interface LatencyScale {
  low: number;
  high: number;
}

export function latencyScale(behaviors: Behavior[]): LatencyScale {
  let [low, high] = [Infinity, 1];
  for (const { latency } of behaviors) {
    low = Math.min(low, Math.max(1, latency.min_us));
    high = Math.max(high, latency.max_us);
  }
  return { low: Math.min(low, high), high };
}

const WIDTH = 56;

/** The whole range as a line, the range from half to 95 % of the cases as a bar. */
export function LatencyStrip({ latency, scale }: { latency: Latency; scale: LatencyScale }) {
  const span = Math.log(scale.high / scale.low) || 1;
  const x = (us: number) => (Math.log(Math.max(us, scale.low) / scale.low) / span) * (WIDTH - 4) + 1;
  const [min, half, most, max] = [latency.min_us, latency.p50_us, latency.p95_us, latency.max_us].map(x);
  if (min === undefined || half === undefined || most === undefined || max === undefined) return null;
  return (
    <svg className="strip" width={WIDTH} height="14" viewBox={`0 0 ${WIDTH} 14`} aria-hidden="true">
      <path d={`M${min} 7H${Math.max(max, min + 1)}`} />
      <rect x={half} y="3" width={Math.max(2, most - half)} height="8" rx="1" />
    </svg>
  );
}

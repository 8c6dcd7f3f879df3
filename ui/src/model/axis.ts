/** Positions of ticks: round numbers, at most about `wanted` of them. */
export function ticks(from: number, to: number, wanted: number): number[] {
  const span = to - from;
  if (!(span > 0)) return [from];
  const rough = span / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power;
  const out: number[] = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to - step * 0.3; i += 1) out.push(i * step + 0); // never -0
  return out;
}

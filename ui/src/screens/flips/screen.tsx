import { SelectField } from '../../parts/fields.tsx';
import { groups, matches, type FlipFilter } from '../../model/flips.ts';
import { count, counted, duration, size } from '../../model/text.ts';
import type { FlipView, RunHead, VariantView } from '../../model/view.ts';
import { useKeys } from '../../state/keys.tsx';
import { useRouter } from '../../state/router.tsx';
import { Breakdown } from './breakdown.tsx';
import { Rates } from './rates.tsx';
import { Stories } from './stories.tsx';

/** What single wrong bits did to a program: rates first, then where, then each wrong answer. */
export default function Flips({ run, view }: { run: RunHead; view: FlipView }) {
  const router = useRouter();
  const query = router.address.query;
  const wanted = view.variants.findIndex((variant) => variant.name === query.get('variant'));
  const filter: FlipFilter = {
    variant: Math.max(0, wanted),
    fn: query.get('fn') ?? '',
    class: query.get('class') ?? '',
    bit: query.get('bit') ?? '',
  };
  const group = query.get('group') ?? '';
  const variant = view.variants[filter.variant];
  const step = (by: number) => {
    const next = view.variants[(filter.variant + by + view.variants.length) % view.variants.length];
    router.set({ variant: next?.name ?? null });
  };
  useKeys([
    { name: ']', does: 'Next program', run: () => step(1) },
    { name: '[', does: 'Previous program', run: () => step(-1) },
    {
      name: 'Escape',
      does: 'Show all flips',
      run: () => router.set({ fn: null, class: null, bit: null, group: null }),
    },
  ]);
  if (variant === undefined) return <p className="loading">This campaign has no program.</p>;
  const stories = view.stories.filter((story) => matches(story, filter));
  const kinds = [...new Set(variant.by_function.map((slice) => slice.group))].sort();
  return (
    <div className="flips">
      <section aria-label="Rates">
        <h2>Errors that clients would accept</h2>
        <p className="soft lead">
          Each flip changed one bit (ASC: several variables). An error is a flip with an effect; it is undetected if the
          output is wrong and a client would accept it. Shares are of the errors, with 95&nbsp;% intervals.
        </p>
        <Rates view={view} selected={filter.variant} />
      </section>
      <section aria-label="One program">
        <div className="toolbar">
          <h2>{variant.name}</h2>
          {kinds.length > 1 && (
            <SelectField
              label="What was flipped"
              value={group}
              options={[
                { value: '', text: 'anything' },
                ...kinds.map((kind) => ({
                  value: kind,
                  text: [kind, variant.rows.find((row) => row.name === kind)?.about].filter(Boolean).join(': '),
                })),
              ]}
              onChange={(group) => router.set({ group })}
            />
          )}
          <Facts variant={variant} />
        </div>
        <div className="breakdowns">
          <Breakdown
            title="By function"
            param="fn"
            selected={filter.fn}
            rows={groups(variant.by_function, group, 'share')}
          />
          <Breakdown
            title="By class of instruction"
            param="class"
            selected={filter.class}
            rows={groups(variant.by_class, group, 'share')}
          />
          <Breakdown title="By bit" param="bit" selected={filter.bit} rows={groups(variant.by_bit, group, 'key')} />
        </div>
      </section>
      <Stories run={run} stories={stories} filter={filter} leftOut={view.stories_left_out} />
    </div>
  );
}

function Facts({ variant }: { variant: VariantView }) {
  const controls =
    variant.controls_deviating === 0
      ? `${counted(variant.controls_run, 'control run')}, all equal`
      : `${count(variant.controls_deviating)} of ${counted(variant.controls_run, 'control run')} deviated`;
  return (
    <span className="soft">
      {counted(variant.instructions, 'instruction')}, {count(variant.distinct_instructions)} distinct ·{' '}
      {counted(variant.replies, 'reply').replace('replys', 'replies')}, {size(variant.golden_bytes)} · {controls} ·{' '}
      {duration(variant.wall_s * 1e6)}
    </span>
  );
}

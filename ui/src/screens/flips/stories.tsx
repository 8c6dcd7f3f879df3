import { useState } from 'react';
import { Command } from '../../parts/copy.tsx';
import { byFunction, sideBySide, type FlipFilter, type Token } from '../../model/flips.ts';
import { count, counted } from '../../model/text.ts';
import type { FlipStory, RunHead, WrongOutput } from '../../model/view.ts';
import { useRouter } from '../../state/router.tsx';

/** Cards that are drawn at first; a campaign may have thousands. */
const STORIES = 24;

interface StoriesProps {
  run: RunHead;
  stories: FlipStory[];
  filter: FlipFilter;
  leftOut: number;
}

/** Each wrong answer: what was flipped, what the program should have sent, and what it sent. */
export function Stories({ stories, filter, leftOut }: StoriesProps) {
  const router = useRouter();
  const [shown, setShown] = useState(STORIES);
  const isFiltered = filter.fn !== '' || filter.class !== '' || filter.bit !== '';
  return (
    <section aria-label="Flips">
      <div className="toolbar">
        <h2>{counted(stories.length, 'flip')} to look at</h2>
        {[
          ['fn', filter.fn],
          ['class', filter.class],
          ['bit', filter.bit === '' ? '' : `bit ${filter.bit}`],
        ].map(
          ([param, text]) =>
            text && (
              <button
                key={param}
                type="button"
                className="button small"
                onClick={() => router.set({ [param ?? '']: null })}
              >
                {text} <span aria-hidden="true">✕</span>
                <span className="hidden">remove</span>
              </button>
            ),
        )}
        {isFiltered && stories.length === 0 && (
          <span className="soft">No wrong answer is stored for these filters.</span>
        )}
        {leftOut > 0 && <span className="soft">{count(leftOut)} more undetected flips are in the store</span>}
      </div>
      {byFunction(stories.slice(0, shown)).map((group) => (
        <section key={group.name} className="flip-group" aria-label={group.name}>
          <h3>
            <code>{group.name}</code> <span className="soft">{counted(group.stories.length, 'flip')}</span>
          </h3>
          <div className="flip-cards">
            {group.stories.map((story) => (
              <Story key={`${story.variant}-${story.id}`} story={story} />
            ))}
          </div>
        </section>
      ))}
      {stories.length > shown && (
        <button type="button" className="button" onClick={() => setShown(shown + 10 * STORIES)}>
          Show more of {count(stories.length)}
        </button>
      )}
    </section>
  );
}

function Story({ story }: { story: FlipStory }) {
  const place = `${story.module}+0x${story.offset.toString(16)}`;
  return (
    <article className="flip-card" aria-label={`Flip ${story.id}`}>
      <header>
        <h4>
          #{story.id} <code>{story.instruction}</code>
        </h4>
        <span className={story.outcome === 'undetected' ? 'failing' : 'soft'}>{story.outcome}</span>
      </header>
      <p>
        <b>{story.kind}</b> {story.hit !== '' && <code>{story.hit}</code>}
        {story.bit !== null && <span className="soft"> bit {story.bit}</span>}
      </p>
      <p className="soft breaks">
        {story.source || place}
        {story.position !== null && ` · after ${counted(story.position, 'instruction')}`}
        {story.end !== '' && ` · ${story.end}`}
      </p>
      {story.wrong_output !== null && <Output output={story.wrong_output} />}
      {story.replay !== '' && <Command text={story.replay} label="Repeat it" />}
      {story.replay_gdb !== '' && <Command text={story.replay_gdb} label="Repeat it under gdb" />}
    </article>
  );
}

function Output({ output }: { output: WrongOutput }) {
  const both = sideBySide(output.expected, output.actual);
  return (
    <>
      <p className="soft">
        Reply {count(output.reply + 1)} of {count(output.replies)} on {output.connection}, from byte{' '}
        {count(output.byte)}
        {output.connections > 1 && `; wrong on ${counted(output.connections, 'connection')}`}
        {output.replies_since !== null &&
          `; ${counted(output.replies_since, 'reply').replace('replys', 'replies')} after the flip`}
      </p>
      <dl className="bytes">
        <div>
          <dt>Expected</dt>
          <dd>
            <Bytes tokens={both.expected} />
          </dd>
        </div>
        <div>
          <dt>Actual</dt>
          <dd>
            <Bytes tokens={both.actual} />
          </dd>
        </div>
      </dl>
    </>
  );
}

/** Neighbors that are alike share an element. */
function Bytes({ tokens }: { tokens: Token[] }) {
  const runs: Token[] = [];
  for (const token of tokens) {
    const last = runs.at(-1);
    if (last !== undefined && last.differs === token.differs) last.text += token.text;
    else runs.push({ ...token });
  }
  return (
    <code>
      {runs.map((run, i) => (run.differs ? <mark key={i}>{run.text}</mark> : <span key={i}>{run.text}</span>))}
      {tokens.length === 0 && <span className="soft">nothing</span>}
    </code>
  );
}

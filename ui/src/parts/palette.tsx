import { useId, useState } from 'react';
import { useCache } from '../source/use.ts';
import { path } from '../source/source.ts';
import { to } from '../state/place.ts';
import { useRouter } from '../state/router.tsx';
import type { KeyBinding } from '../state/keys.tsx';
import type { RunList, RunView } from '../model/view.ts';
import { Dialog } from './dialog.tsx';

interface Entry {
  text: string;
  kind: string;
  run: () => void;
}

/** Finds runs, bugs of the current run and actions by typing. */
export function Palette({
  bindings,
  run,
  onClose,
}: {
  bindings: KeyBinding[];
  run: string | null;
  onClose: () => void;
}) {
  const [typed, setTyped] = useState('');
  const [at, setAt] = useState(0);
  const id = useId();
  const all = useEntries(bindings, run);
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all
    .filter((entry) => words.every((word) => `${entry.kind} ${entry.text}`.toLowerCase().includes(word)))
    .slice(0, 12);
  const current = Math.min(at, found.length - 1);
  const choose = (entry: Entry | undefined) => {
    if (entry === undefined) return;
    onClose();
    entry.run();
  };
  const press = (key: string) => {
    if (key === 'ArrowDown') setAt((current + 1) % Math.max(1, found.length));
    else if (key === 'ArrowUp') setAt((current - 1 + found.length) % Math.max(1, found.length));
    else if (key === 'Enter') choose(found[current]);
    else return false;
    return true;
  };
  return (
    <Dialog label="Go to" onClose={onClose}>
      <input
        className="palette-input"
        role="combobox"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-activedescendant={found.length > 0 ? `${id}-${current}` : undefined}
        aria-label="Go to a run, a bug or an action"
        placeholder="Go to a run, a bug or an action"
        autoFocus
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          if (press(event.key)) event.preventDefault();
        }}
      />
      <ul role="listbox" id={`${id}-list`} aria-label="Matches" className="palette-list">
        {found.map((entry, i) => (
          <li
            key={`${entry.kind}${entry.text}${i}`}
            id={`${id}-${i}`}
            role="option"
            aria-selected={i === current}
            onClick={() => choose(entry)}
          >
            <span className="soft">{entry.kind}</span> {entry.text}
          </li>
        ))}
      </ul>
      {found.length === 0 && <p className="soft">Nothing matches.</p>}
    </Dialog>
  );
}

function useEntries(bindings: KeyBinding[], run: string | null): Entry[] {
  const router = useRouter();
  const cache = useCache();
  const entries: Entry[] = [];
  const view = run === null ? undefined : cache.peek<RunView>(path.view(run));
  if (view?.content.kind === 'sweep') {
    for (const bug of view.content.bugs) {
      const target = `${to.run(view.run.id, 'behaviors')}?bug=${bug.number}`;
      entries.push({ kind: `bug ${bug.number}`, text: bug.title, run: () => router.go(target) });
    }
  }
  for (const binding of bindings) {
    if (binding.does === '') continue;
    entries.push({ kind: binding.name, text: binding.does, run: () => binding.run(new KeyboardEvent('keydown')) });
  }
  if (cache.source.kind === 'api') {
    const runs = cache.read<RunList>(path.runs, (reply) => reply as RunList);
    for (const head of runs.state === 'ready' ? runs.value.runs : []) {
      entries.push({ kind: head.kind, text: `${head.title} ${head.short_id}`, run: () => router.go(to.run(head.id)) });
    }
  }
  return entries;
}

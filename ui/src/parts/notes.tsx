import type { Note } from '../model/view.ts';

export const NOTES_HEADING = 'Before you rely on this';

export function Notes({ notes }: { notes: Note[] }) {
  if (notes.length === 0) return <p className="soft">This run has no notes.</p>;
  const sorted = [...notes].sort((a, b) => Number(b.is_warning) - Number(a.is_warning));
  return (
    <ul className="notes">
      {sorted.map((note, i) => (
        <li key={i} className={note.is_warning ? 'warning' : ''}>
          <span className="mark" aria-hidden="true">
            {note.is_warning ? '!' : 'i'}
          </span>
          <span>
            {note.is_warning && <b>Warning: </b>}
            {note.text}
          </span>
        </li>
      ))}
    </ul>
  );
}

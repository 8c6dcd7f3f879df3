import { expect, it } from 'vitest';
import { EmbeddedSource } from './embedded.ts';
import { EventReader } from './events.ts';

it('events may be split anywhere', () => {
  const reader = new EventReader();
  const text = ': hello\n\nevent: runs\ndata: {}\n\nevent: progress\r\ndata: {"run":"1","done":2,"failed":0}\r\n\r\n';
  const events = [...text].flatMap((letter) => reader.feed(letter));
  expect(events).toEqual([{ type: 'runs' }, { type: 'progress', run: '1', done: 2, failed: 0 }]);
});

it('unknown and damaged events are ignored', () => {
  const reader = new EventReader();
  expect(reader.feed('event: other\ndata: 1\n\nevent: progress\ndata: {\n\n')).toEqual([]);
});

it('a file has the paths that were embedded, and no others', async () => {
  const source = new EmbeddedSource({ version: 1, files: { 'runs/1/view': { a: 1 }, about: {} } });
  expect(source.runs()).toEqual(['1']);
  await expect(source.get('runs/1/view')).resolves.toEqual({ a: 1 });
  await expect(source.get('toString')).rejects.toMatchObject({ reason: 'not-embedded', what: 'Not in this file' });
});

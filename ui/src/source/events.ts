import type { RunProgress } from '../model/view.ts';
import type { SourceEvent } from './source.ts';

/** Reads server-sent events from a stream of text. Feed it chunks; it returns the complete events. */
export class EventReader {
  private rest = '';

  feed(chunk: string): SourceEvent[] {
    const blocks = (this.rest + chunk.replaceAll('\r', '')).split('\n\n');
    this.rest = blocks.pop() ?? '';
    return blocks.flatMap((block) => {
      const event = read(block);
      return event === null ? [] : [event];
    });
  }
}

function read(block: string): SourceEvent | null {
  let type = 'message';
  const data: string[] = [];
  for (const line of block.split('\n')) {
    const [, field, value] = /^(event|data): ?(.*)$/.exec(line) ?? [];
    if (field === 'event') type = value ?? '';
    if (field === 'data') data.push(value ?? '');
  }
  if (type === 'runs') return { type };
  if (type !== 'progress') return null;
  try {
    return { type, ...(JSON.parse(data.join('\n')) as RunProgress) };
  } catch {
    return null;
  }
}

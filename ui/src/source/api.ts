import { EventReader } from './events.ts';
import { SourceFailure, type FailureReason } from './failure.ts';
import { noSession, type Session } from './session.ts';
import type { Source, SourceEvent } from './source.ts';

const RECONNECT_MS = 2000;

/** The API of `faultloom ui`. */
export class ApiSource implements Source {
  readonly kind = 'api';

  constructor(
    private readonly base: string,
    private readonly session: Session,
  ) {}

  async get(path: string): Promise<unknown> {
    return (await this.send('GET', path)).json();
  }

  async delete(run: string): Promise<void> {
    await this.send('DELETE', `runs/${encodeURIComponent(run)}`);
  }

  /** A hidden tab does not listen: a browser has six connections to a host, for all tabs together. */
  listen(listener: (event: SourceEvent) => void): () => void {
    let abort = new AbortController();
    const listenIfVisible = () => {
      abort.abort();
      abort = new AbortController();
      if (!document.hidden) void this.stream(listener, abort.signal);
    };
    document.addEventListener('visibilitychange', listenIfVisible);
    listenIfVisible();
    return () => {
      document.removeEventListener('visibilitychange', listenIfVisible);
      abort.abort();
    };
  }

  /** Reads events until `signal`, and connects again if the stream ends. A page without events still works. */
  private async stream(listener: (event: SourceEvent) => void, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const reply = await this.send('GET', 'events', signal);
        const text = reply.body?.pipeThrough(new TextDecoderStream()).getReader();
        const events = new EventReader();
        for (let chunk = await text?.read(); chunk !== undefined && !chunk.done; chunk = await text?.read()) {
          events.feed(chunk.value).forEach(listener);
        }
      } catch (thrown) {
        const isFinal = thrown instanceof SourceFailure && thrown.reason !== 'offline';
        if (signal.aborted || isFinal) return;
      }
      await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
    }
  }

  private async send(method: string, path: string, signal?: AbortSignal): Promise<Response> {
    const headers = { Authorization: await this.session.header() };
    const options: RequestInit = { method, headers, cache: 'no-store' };
    if (signal !== undefined) options.signal = signal;
    let reply: Response;
    try {
      reply = await fetch(this.base + path, options);
    } catch {
      throw new SourceFailure(
        'offline',
        'The workbench does not respond',
        'it was stopped, or it is restarting',
        'run `faultloom ui`',
      );
    }
    if (reply.ok) return reply;
    if (reply.status === 401) {
      this.session.drop();
      throw noSession();
    }
    throw await failureOfReply(reply);
  }
}

async function failureOfReply(reply: Response): Promise<SourceFailure> {
  const reasons: Record<number, FailureReason> = { 403: 'refused', 404: 'gone', 409: 'unfinished' };
  const reason = reasons[reply.status] ?? 'other';
  try {
    const { error } = (await reply.json()) as { error: { what: string; why?: string | null; next?: string | null } };
    return new SourceFailure(reason, error.what, error.why ?? '', error.next ?? '');
  } catch {
    return new SourceFailure(reason, `The workbench answered with status ${reply.status}`);
  }
}

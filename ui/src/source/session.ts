import { SourceFailure } from './failure.ts';

const KEY = 'faultloom-session';

/**
 * The session of this tab. The address that `faultloom ui` prints has a one-time token in its fragment, which browsers
 * send to no server. It is exchanged for a session and removed from the address and the history at once.
 */
export class Session {
  private current: string | null = null;
  private pending: Promise<string> | null = null;

  constructor(
    private readonly base: string,
    private readonly storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>,
  ) {
    this.current = storage.getItem(KEY);
  }

  /** Takes the token out of the address, if there is one. */
  take(location: Location, history: History): void {
    const token = new URLSearchParams(location.hash.slice(1)).get('token');
    if (token === null) return;
    history.replaceState(null, '', location.pathname + location.search);
    this.pending = this.exchange(token);
    this.pending.catch(() => {}); // reported by the first request that needs it
  }

  async header(): Promise<string> {
    if (this.pending !== null) {
      try {
        this.current = await this.pending;
        this.storage.setItem(KEY, this.current);
      } finally {
        this.pending = null;
      }
    }
    if (this.current === null) throw noSession();
    return `Bearer ${this.current}`;
  }

  /** The server does not know the session any more. */
  drop(): void {
    this.current = null;
    this.storage.removeItem(KEY);
  }

  private async exchange(token: string): Promise<string> {
    const reply = await fetch(`${this.base}session`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ token }),
    });
    if (!reply.ok) throw noSession();
    const { session } = (await reply.json()) as { session: string };
    return session;
  }
}

export function noSession(): SourceFailure {
  return new SourceFailure(
    'no-session',
    'This page has no session',
    'The address of the workbench holds a token that works once, so a copied or old address opens nothing.',
    'run `faultloom ui` and open the address that it prints',
  );
}

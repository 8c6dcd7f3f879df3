/** A reply whose body passes through a Body, for http and http2. */

import type { Readable } from 'node:stream';
import type { Fn, Loose } from '../patch';
import { Body, BodyReader, MAX_ALTERED_BYTES, timeToRead, waitForEagerBody } from './body';
import type { ReplyHeaders } from './reply-headers';

/** A reply between the parser and the application: the chunks that the parser pushes pass through a Body. */
export class Reply implements BodyReader {
  body!: Body;
  private readonly push: Fn;
  private readonly chunks: Buffer[] = [];
  private bytes = 0;
  /** Whether the parser has delivered the end of the body. The rest of it may still be decoded. */
  private bodyEnded = false;
  /** Whether the application has got the end of the body, or gets none. */
  private isFinished = false;
  /** Whether the application gave up the request before it got the response. */
  private isCancelled = false;
  /** When the first bytes arrived that the application has not got yet. */
  private undeliveredSinceMs = performance.now();
  private cancelEager: () => void = () => undefined;
  /** Number of chunks that were delivered as they arrived. */
  private delivered = 0;
  /** When an error that follows withheld bytes may be delivered at the earliest. */
  private readableUntilMs = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(
    private readonly response: Readable,
    private readonly headers: ReplyHeaders,
    /** Whether the connection is open, so that it is the application that destroys the response. */
    isConnected: () => boolean,
    /** Whether the application gets the response only when its body has been read. */
    private eager: boolean,
    /** Emits the response; returns whether it has a listener. */
    private readonly announce: () => boolean,
  ) {
    const loose = response as unknown as Loose;
    this.push = loose['push'];
    loose['push'] = (chunk: Buffer | null) => {
      if (this.isFinished || this.bodyEnded) {
        return false; // Node ends a response whose connection has ended
      }
      if (chunk === null) {
        this.bodyEnded = true;
        this.body.end();
        return false;
      }
      if (!this.eager) {
        this.undeliveredSinceMs = performance.now();
      }
      return this.body.feed(chunk);
    };
    const destroy = loose['destroy'] as Fn;
    loose['destroy'] = (error: unknown) => {
      const byApplication = isConnected();
      if (byApplication) {
        this.cancel();
      }
      const isWithheld = !byApplication && this.afterReading(() => void destroy.call(response, error));
      if (isWithheld) {
        return response;
      }
      this.connectionEnded();
      return destroy.call(response, error) as unknown;
    };
  }

  /**
   * Runs the action when the application has had time to read what was withheld, and all actions in the order of the
   * calls. Returns false if there is nothing to wait for; the caller then acts itself.
   */
  afterReading(action: () => void): boolean {
    const waitMs = this.connectionEnded();
    if (waitMs === 0 && this.waiting.length === 0) {
      return false;
    }
    if (this.waiting.push(action) === 1) {
      const run = (): void => {
        this.waiting.splice(0).forEach((one) => one());
      };
      setTimeout(run, waitMs);
    }
    return true;
  }

  /**
   * The body breaks off here, unless it has ended. Delivers what was withheld, and returns for how many milliseconds
   * the application may read it before it gets an error.
   */
  connectionEnded(): number {
    if (this.bodyEnded) {
      this.release(false); // the event follows the response, even if the rest of the body is still being decoded
    } else if (!this.isFinished) {
      this.isFinished = true;
      const before = this.delivered;
      const wasEager = this.eager;
      this.body.abandon();
      this.release(false);
      if (wasEager || this.delivered > before) {
        this.readableUntilMs = performance.now() + timeToRead(this.undeliveredSinceMs);
      }
    }
    return Math.max(0, this.readableUntilMs - performance.now());
  }

  /**
   * The application gives up the request. Returns whether it has not got the response; it must not get it afterwards.
   */
  cancel(): boolean {
    if (!this.eager) {
      return false;
    }
    this.eager = false;
    this.isCancelled = true;
    this.isFinished = true;
    this.cancelEager();
    this.chunks.length = 0;
    if (!this.bodyEnded) {
      this.body.abandon();
    }
    return true;
  }

  begin(removesEncoding: boolean, isAltered: boolean): boolean {
    if (removesEncoding) {
      this.headers.remove('content-encoding');
    }
    if (!this.eager) {
      this.headers.remove('content-length');
      return this.announce();
    }
    if (!isAltered) {
      this.cancelEager = waitForEagerBody(() => this.release(false));
    }
    return true;
  }

  data(chunk: Buffer): boolean {
    if (this.isCancelled) {
      return true;
    }
    if (this.eager) {
      this.chunks.push(Buffer.from(chunk));
      this.bytes += chunk.length;
      if (this.bytes > MAX_ALTERED_BYTES) {
        this.release(false);
      }
      return true;
    }
    this.delivered++;
    this.push.call(this.response, chunk);
    return this.response.readableLength < this.response.readableHighWaterMark;
  }

  get isHolding(): boolean {
    return this.eager;
  }

  drop(): void {
    this.chunks.length = 0;
    this.bytes = 0;
  }

  end(error?: Error): void {
    if (this.isFinished) {
      return;
    }
    this.isFinished = true;
    if (error !== undefined) {
      this.release(false);
      this.response.destroy(error);
      return;
    }
    this.release(true);
    this.push.call(this.response, null);
  }

  /** Delivers what was read eagerly. */
  private release(isComplete: boolean): void {
    this.cancelEager();
    if (!this.eager) {
      return;
    }
    this.eager = false;
    const body = Buffer.concat(this.chunks.splice(0));
    if (!isComplete) {
      this.headers.remove('content-length'); // it includes the tail
    } else if (this.headers.get('content-length') !== undefined) {
      this.headers.set('content-length', String(body.length));
    }
    if (!this.announce()) {
      this.response.resume();
    }
    if (body.length > 0) {
      this.push.call(this.response, body);
    }
  }
}

package dev.faultloom.http;

import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Headers;
import dev.faultloom.wire.History;
import dev.faultloom.wire.Text;
import dev.faultloom.wire.WireError;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;

/**
 * Holds a reply back until it is complete, or 32 kB long, or flushed: most replies are then complete, and their history
 * known, before their headers leave.
 *
 * <pre>
 * held ──finish──▶ history in a header | tail behind the body | truncated history in a header
 * held ──overflow, flush──▶ committed: tail announced, or "gap" ──finish──▶ tail, or nothing
 * </pre>
 *
 * Writing to it and finishing it are for one thread at a time.
 */
public abstract class HeldReply extends OutputStream {
    private final Scope scope;
    private final String method;
    private final Headers request;
    private ByteArrayOutputStream held = new ByteArrayOutputStream(512); // null: committed
    private OutputStream under;
    private boolean tail;
    private boolean finished;

    /** @param request the request's headers */
    protected HeldReply(Scope scope, String method, Headers request) {
        this.scope = scope;
        this.method = method;
        this.request = request;
    }

    /** The status as it is now. */
    protected abstract int status();

    /** The header as it is now, in lower case; those of several lines joined. */
    protected abstract String header(String name);

    /** Replaces a header, or adds it. */
    protected abstract void setHeader(String name, String value);

    /**
     * Sends the headers, if the library does that by itself, and returns where the body goes.
     *
     * @param length of the whole body; -1: unknown, the application's own word does not hold because a tail follows; -2: as
     *     the application said
     */
    protected abstract OutputStream commit(long length) throws IOException;

    /** The call as this service knows it, such as {@code GET /cart/{user}}. */
    protected abstract String name();

    public Scope scope() {
        return scope;
    }

    /** Whether the headers have left. */
    public boolean committed() {
        return held == null;
    }

    /** Forgets the body, if nothing of it has left. */
    public void reset() {
        if (held != null) {
            held.reset();
        }
    }

    /** How much is held back. */
    protected int heldBytes() {
        return held == null ? 0 : held.size();
    }

    @Override
    public void write(int b) throws IOException {
        write(new byte[] {(byte) b}, 0, 1);
    }

    @Override
    public void write(byte[] b, int from, int length) throws IOException {
        if (held != null) {
            if (held.size() + length <= Carrier.MAX_HELD_BYTES) {
                held.write(b, from, length);
                return;
            }
            release();
        }
        under.write(b, from, length);
    }

    @Override
    public void flush() throws IOException {
        release();
        under.flush();
    }

    /** Closing ends the body, not the handler: what goes behind it is written by {@link #finish}. */
    @Override
    public void close() throws IOException {}

    /** Lets the headers go before the history is known. */
    public void release() throws IOException {
        if (held == null) {
            return;
        }
        ByteArrayOutputStream body = held;
        held = null;
        Headers reply = this::header;
        if (!scope.answers()) {
            under = commit(-2);
        } else {
            tail = !Carrier.streamed(reply) && Carrier.mayTail(scope.envelope().hop.accept, method, request, status(), reply);
            setHeader(Envelope.REPLY_HEADER, tail ? "tail" : "gap");
            if (tail) {
                uncacheable();
            }
            under = commit(tail ? -1 : -2);
        }
        body.writeTo(under);
    }

    /** Answers once the handler has completed; {@code status}: what is recorded. */
    public void finish(int status) throws IOException {
        if (finished) {
            return;
        }
        finished = true;
        byte[] history = scope.finish(scope.now(), status, safeName());
        if (held == null) {
            if (tail) {
                under.write(Carrier.tail(history == null ? new byte[0] : history));
            }
            return;
        }
        ByteArrayOutputStream body = held;
        held = null;
        byte[] end = history == null ? null : choose(history);
        under = commit(end == null ? -2 : body.size() + end.length);
        if (body.size() > 0) {
            body.writeTo(under);
        }
        if (end != null) {
            under.write(end);
        }
    }

    /** Records an answer that somebody else writes, whose headers can still be added to. */
    public void finishHeader(int status) {
        if (finished) {
            return;
        }
        finished = true;
        byte[] history = scope.finish(scope.now(), status, safeName());
        if (history != null && held != null) {
            inHeader(history);
        }
    }

    private String safeName() {
        try {
            return name();
        } catch (RuntimeException | LinkageError e) {
            return "";
        }
    }

    /** Sets the headers that the history needs; what goes behind the body, or null. */
    private byte[] choose(byte[] history) {
        Carrier.Choice choice = Carrier.choose(history.length, true, scope.envelope().hop.accept, method, request, status(), this::header);
        if (choice == Carrier.Choice.TAIL) {
            setHeader(Envelope.REPLY_HEADER, "tail");
            uncacheable();
            return Carrier.tail(history);
        }
        inHeader(history);
        return null;
    }

    private void inHeader(byte[] history) {
        byte[] fits = null;
        try {
            fits = History.truncate(history, Carrier.MAX_HEADER_BYTES);
        } catch (WireError e) {
            // a gap, then
        }
        if (fits == null) {
            setHeader(Envelope.REPLY_HEADER, "gap");
            return;
        }
        setHeader(Envelope.HISTORY_HEADER, Text.base64(fits));
        uncacheable();
    }

    private void uncacheable() {
        setHeader("Cache-Control", "no-store, no-transform");
        String vary = header("vary");
        setHeader("Vary", vary == null || vary.isEmpty() ? Envelope.HTTP_HEADER : vary + ", " + Envelope.HTTP_HEADER);
    }
}

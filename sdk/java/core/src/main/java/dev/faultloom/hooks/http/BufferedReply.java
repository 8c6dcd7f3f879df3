package dev.faultloom.hooks.http;

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
 * Buffers a reply until it is complete, or 32 kB long, or flushed. Most replies are complete by then, and their history
 * is known before their headers are sent.
 *
 * <pre>
 * buffered ──finish──▶ history in a header | tail behind the body | truncated history in a header
 * buffered ──overflow, flush──▶ committed: tail announced, or "gap" ──finish──▶ tail, or nothing
 * </pre>
 *
 * Only one thread at a time may write to it or finish it.
 */
public abstract class BufferedReply extends OutputStream {
    /**
     * For {@link #sendHeaders}: the length is unknown, because a tail follows the body that the application declared.
     */
    protected static final long UNKNOWN_LENGTH = -1;
    /** For {@link #sendHeaders}: the length that the application declared, if any. */
    protected static final long DECLARED_LENGTH = -2;

    private final Scope scope;
    private final String method;
    private final Headers request;
    private ByteArrayOutputStream buffer = new ByteArrayOutputStream(512); // null: committed
    private OutputStream out; // of the library, once committed
    private boolean tailAnnounced;
    private boolean finished;

    /** @param request the request's headers */
    protected BufferedReply(Scope scope, String method, Headers request) {
        this.scope = scope;
        this.method = method;
        this.request = request;
    }

    /** The current status. */
    protected abstract int status();

    /** The current value of the header with that lower-case name, several lines joined; or null. */
    protected abstract String header(String name);

    /** Sets a header, replacing its present value. */
    protected abstract void setHeader(String name, String value);

    /**
     * Sends the headers, unless the library sends them with the body, and returns the stream for the body.
     *
     * @param length of the body in bytes, {@link #UNKNOWN_LENGTH} or {@link #DECLARED_LENGTH}
     */
    protected abstract OutputStream sendHeaders(long length) throws IOException;

    /** The name of the call at this service, such as {@code GET /cart/{user}}. */
    protected abstract String name();

    public Scope scope() {
        return scope;
    }

    /** Whether the headers were sent. */
    public boolean isCommitted() {
        return buffer == null;
    }

    /** Discards the buffered body. */
    public void reset() {
        if (buffer != null) {
            buffer.reset();
        }
    }

    @Override
    public void write(int b) throws IOException {
        write(new byte[] {(byte) b}, 0, 1);
    }

    @Override
    public void write(byte[] b, int from, int length) throws IOException {
        if (buffer != null) {
            if (buffer.size() + length <= Carrier.MAX_BUFFERED_BYTES) {
                buffer.write(b, from, length);
                return;
            }
            commit();
        }
        out.write(b, from, length);
    }

    @Override
    public void flush() throws IOException {
        commit();
        out.flush();
    }

    /** Does nothing: {@link #finish} may still append a tail after the application has closed the body. */
    @Override
    public void close() throws IOException {}

    /** Sends the headers and the buffered body before the history is known. */
    public void commit() throws IOException {
        if (buffer == null) {
            return;
        }
        ByteArrayOutputStream body = buffer;
        buffer = null;
        Headers reply = this::header;
        if (!scope.returnsHistory()) {
            out = sendHeaders(DECLARED_LENGTH);
        } else {
            int accept = scope.envelope().hop.accept;
            tailAnnounced = !Carrier.isStreamed(reply) && Carrier.allowsTail(accept, method, request, status(), reply);
            setHeader(Envelope.REPLY_HEADER, tailAnnounced ? "tail" : "gap");
            if (tailAnnounced) {
                disableCaching();
            }
            out = sendHeaders(tailAnnounced ? UNKNOWN_LENGTH : DECLARED_LENGTH);
        }
        body.writeTo(out);
    }

    /** Completes the reply after the handler has completed. {@code status} is recorded. */
    public void finish(int status) throws IOException {
        if (finished) {
            return;
        }
        finished = true;
        byte[] history = scope.finish(scope.now(), status, safeName());
        if (buffer == null) {
            if (tailAnnounced && history != null) { // an empty tail would be part of the caller's body
                out.write(Carrier.encodeTail(history));
            }
            return;
        }
        ByteArrayOutputStream body = buffer;
        buffer = null;
        byte[] tail = history == null ? null : attachHistory(history);
        out = sendHeaders(tail == null ? DECLARED_LENGTH : body.size() + tail.length);
        if (body.size() > 0) {
            body.writeTo(out);
        }
        if (tail != null) {
            out.write(tail);
        }
    }

    /** Records a reply that the container writes. The history goes into a header if the headers were not sent yet. */
    public void finishInHeader(int status) {
        if (finished) {
            return;
        }
        finished = true;
        byte[] history = scope.finish(scope.now(), status, safeName());
        if (history != null && buffer != null) {
            setHistoryHeader(history);
        }
    }

    private String safeName() {
        try {
            return name();
        } catch (RuntimeException | LinkageError e) {
            return "";
        }
    }

    /** Sets the headers that the history needs and returns the tail, or null. */
    private byte[] attachHistory(byte[] history) {
        Carrier.Choice choice =
                Carrier.choose(history.length, true, scope.envelope().hop.accept, method, request, status(), this::header);
        if (choice == Carrier.Choice.TAIL) {
            setHeader(Envelope.REPLY_HEADER, "tail");
            disableCaching();
            return Carrier.encodeTail(history);
        }
        setHistoryHeader(history);
        return null;
    }

    private void setHistoryHeader(byte[] history) {
        byte[] truncated = null;
        try {
            truncated = History.truncate(history, Carrier.MAX_HEADER_BYTES);
        } catch (WireError e) {
            // a callee's history cannot be decoded: report a gap
        }
        if (truncated == null) {
            setHeader(Envelope.REPLY_HEADER, "gap");
            return;
        }
        setHeader(Envelope.HISTORY_HEADER, Text.encodeBase64(truncated));
        disableCaching();
    }

    private void disableCaching() {
        setHeader("Cache-Control", "no-store, no-transform");
        String vary = header("vary");
        setHeader("Vary", vary == null || vary.isEmpty() ? Envelope.HTTP_HEADER : vary + ", " + Envelope.HTTP_HEADER);
    }
}

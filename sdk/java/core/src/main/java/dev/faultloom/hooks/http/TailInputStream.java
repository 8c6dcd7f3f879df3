package dev.faultloom.hooks.http;

import dev.faultloom.hooks.faults.Faults;
import java.io.ByteArrayInputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** The body of a reply without its tail. */
public final class TailInputStream extends FilterInputStream {
    /** How much {@link #close} reads to reach the tail of a body that the application did not read to its end. */
    private static final int MAX_DRAIN = 256 << 10;
    /** The largest part of a body that a fault changes; it is held in memory. */
    private static final int MAX_CHANGED = 32 << 20;
    /** A reply with a tail and at most this length is read at once. */
    static final int MAX_EAGER = 256 << 10;
    /**
     * Maximum wait for the body, in milliseconds. The application must not wait longer for the headers than without
     * tracing.
     */
    private static final long MAX_EAGER_MS = 100;

    private final HttpCall call;
    private final TailWindow window = new TailWindow();
    private final byte[] chunk = new byte[8192];
    private boolean ended;
    private boolean closed;
    /** Why the body broke off. It is thrown when the bytes before it have been read. */
    private IOException failure;

    public TailInputStream(InputStream in, HttpCall call) {
        super(in);
        this.call = call;
    }

    /** Whether {@link #of} replaces the body of a reply. */
    public static boolean isNeeded(boolean tail, HttpCall call) {
        return tail || call.effect.changesBody() || call.effect.losesReply();
    }

    /**
     * The body that the application reads: without a tail, and changed by a fault. The body of a lost reply is read to
     * its end, for the history, and the result is empty.
     */
    public static InputStream of(InputStream in, boolean tail, HttpCall call) throws IOException {
        InputStream body = tail ? new TailInputStream(in, call) : in;
        if (call.effect.losesReply()) {
            try {
                body.readNBytes(MAX_CHANGED);
            } finally {
                call.recordReply(null);
                body.close();
            }
            return InputStream.nullInputStream();
        }
        if (!call.effect.changesBody()) {
            return body;
        }
        byte[] bytes = body.readNBytes(MAX_CHANGED);
        body.close();
        return new ByteArrayInputStream(bytes, 0, Faults.changeBody(call.effect.outcome, bytes, bytes.length));
    }

    /**
     * The length of a body that {@link #of} returned, -1: unknown. A declared length means that the callee has
     * finished: the body is read at once if it arrives in time. This records the history before the application's next
     * call, which may depend on it.
     *
     * @param received the length that the reply declared, with the tail; -1: unknown
     * @param abort ends a read of the body, from another thread; null: the body's {@code available} includes the bytes
     *     that the socket has received
     */
    public static long lengthOf(InputStream body, long received, Runnable abort) throws IOException {
        if (!(body instanceof TailInputStream)) {
            return body.available(); // changed by a fault: all of it is in memory
        }
        if (received < 0 || received > MAX_EAGER) {
            return -1;
        }
        TailInputStream tail = (TailInputStream) body;
        boolean isWhole = abort == null ? tail.readAvailable(received) : tail.readAhead(abort);
        return isWhole ? tail.window.ready() : -1;
    }

    /** Reads without blocking. Returns whether the body has arrived, with its tail. */
    private boolean readAvailable(long received) throws IOException {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(MAX_EAGER_MS);
        long left = received;
        while (!ended && left > 0) {
            if (in.available() > 0) {
                left -= fill();
            } else if (System.nanoTime() - deadline > 0) {
                return false;
            } else {
                LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(200));
            }
        }
        return failure == null && call.recordIfComplete(window);
    }

    /** Reads on another thread. Returns whether the body has arrived. */
    private boolean readAhead(Runnable abort) {
        ReadAhead ahead = ReadAhead.start(in, abort);
        if (ahead == null) {
            return false;
        }
        in = ahead;
        if (!ahead.awaitEnd(MAX_EAGER_MS)) {
            return false;
        }
        while (!ended) {
            fill();
        }
        return failure == null;
    }

    @Override
    public int read() throws IOException {
        return readByte(this);
    }

    /** {@link InputStream#read()} for a stream that reads arrays. */
    static int readByte(InputStream in) throws IOException {
        byte[] one = new byte[1];
        return in.read(one, 0, 1) < 0 ? -1 : one[0] & 0xFF;
    }

    @Override
    public int read(byte[] b, int from, int length) throws IOException {
        if (length == 0) {
            return 0;
        }
        if (closed) {
            return in.read(b, from, length); // fails as the library does
        }
        while (window.ready() == 0) {
            if (failure != null) {
                throw failure;
            }
            if (ended) {
                return -1;
            }
            fill();
        }
        return window.take(b, from, length);
    }

    /** Reads once. A failure ends the body; bytes that were held back then belong to it. */
    private int fill() {
        int n;
        try {
            n = in.read(chunk);
        } catch (IOException e) {
            ended = true;
            failure = e;
            window.releaseAll();
            call.recordReply(null);
            return -1;
        }
        if (n < 0) {
            ended = true;
            call.recordReply(window.finish());
        } else {
            window.add(chunk, 0, n);
            call.recordIfComplete(window);
        }
        return n;
    }

    @Override
    public long skip(long n) throws IOException {
        long left = n;
        byte[] into = new byte[(int) Math.min(8192, Math.max(1, n))];
        while (left > 0) {
            int got = read(into, 0, (int) Math.min(into.length, left));
            if (got < 0) {
                break;
            }
            left -= got;
        }
        return n - left;
    }

    @Override
    public int available() {
        return window.ready();
    }

    @Override
    public boolean markSupported() {
        return false;
    }

    @Override
    public void close() throws IOException {
        try {
            // Parsers rarely read a body to its end; bytes that have arrived are read without blocking.
            for (int left = MAX_DRAIN; !ended && left > 0 && in.available() > 0; left -= Math.max(1, fill())) {
                window.take();
            }
        } catch (IOException e) {
            // recorded as a gap
        } finally {
            ended = true;
            closed = true;
            call.recordReply(null);
            in.close();
        }
    }
}

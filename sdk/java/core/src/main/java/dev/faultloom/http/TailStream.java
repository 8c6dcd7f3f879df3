package dev.faultloom.http;

import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Kind;
import java.io.ByteArrayInputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;

/** A reply's body, without the tail behind it. */
public final class TailStream extends FilterInputStream {
    /** How much {@link #close} reads to find the tail of a body that the program did not read to its end. */
    private static final int MAX_DRAIN = 256 << 10;
    /** A fault holds at most so much of a body in memory. */
    private static final int MAX_CHANGED = 32 << 20;

    private final HttpCall call;
    private final Window window = new Window();
    private final byte[] chunk = new byte[8192];
    private boolean over;

    public TailStream(InputStream in, HttpCall call) {
        super(in);
        this.call = call;
    }

    /**
     * The body that the application gets to read: without a tail, and as a fault changes it. For a lost reply nothing is
     * left of it, once it has been read to its end.
     */
    public static InputStream of(InputStream in, boolean tail, HttpCall call) throws IOException {
        InputStream body = tail ? new TailStream(in, call) : in;
        if (call.kind == Kind.LOST_REPLY) {
            try {
                body.readNBytes(MAX_CHANGED);
            } finally {
                call.ended(null);
                body.close();
            }
            return InputStream.nullInputStream();
        }
        if (!call.changesBody()) {
            return body;
        }
        byte[] bytes = body.readNBytes(MAX_CHANGED);
        body.close();
        return new ByteArrayInputStream(changed(call, bytes));
    }

    /** A whole body as a fault changes it. */
    public static byte[] changed(HttpCall call, byte[] body) {
        if (call.kind == Kind.EMPTY_REPLY) {
            return new byte[0];
        }
        Carrier.corrupt(body, 0, body.length);
        return body;
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xFF;
    }

    @Override
    public int read(byte[] b, int from, int length) throws IOException {
        if (length == 0) {
            return 0;
        }
        while (window.ready() == 0) {
            if (over) {
                return -1;
            }
            fill();
        }
        return window.take(b, from, length);
    }

    private int fill() throws IOException {
        int n;
        try {
            n = in.read(chunk);
        } catch (IOException e) {
            over = true;
            window.abandon();
            call.ended(null);
            throw e;
        }
        if (n < 0) {
            over = true;
            call.ended(window.finish());
        } else {
            window.feed(chunk, 0, n);
            call.look(window);
        }
        return n;
    }

    /** Reads to the end: the callee had finished, so everything is on its way. */
    public void prefetch() throws IOException {
        while (!over) {
            fill();
        }
    }

    /** How many bytes are here. */
    public int length() {
        return window.ready();
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
            // programs that parse a body rarely read to its end; what is here already costs no waiting
            for (int left = MAX_DRAIN; !over && left > 0 && in.available() > 0; left -= Math.max(1, fill())) {
                window.take();
            }
        } catch (IOException e) {
            // a gap, then
        } finally {
            over = true;
            call.ended(null);
            in.close();
        }
    }
}

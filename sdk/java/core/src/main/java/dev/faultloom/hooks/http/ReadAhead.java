package dev.faultloom.hooks.http;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;

/** Reads a body on a thread of its own, without blocking its reader. The body must be short: it is kept in memory. */
final class ReadAhead extends InputStream {
    private final InputStream in;
    private final Runnable abort;
    private byte[] bytes = new byte[0]; // read and not returned yet
    private int taken;
    private final ByteArrayOutputStream more = new ByteArrayOutputStream(); // read after {@link #bytes}
    private boolean ended;
    private boolean closed;
    private IOException failure;

    private ReadAhead(InputStream in, Runnable abort) {
        this.in = in;
        this.abort = abort;
    }

    /** Begins to read; null: there is no thread for it. {@code abort} ends a read that blocks. */
    static ReadAhead start(InputStream in, Runnable abort) {
        ReadAhead ahead = new ReadAhead(in, abort);
        Thread thread = new Thread(ahead::run, "faultloom-read-ahead");
        thread.setDaemon(true);
        try {
            thread.start();
        } catch (OutOfMemoryError e) {
            return null; // the limit of threads is reached; the body is read by the application
        }
        return ahead;
    }

    private void run() {
        byte[] chunk = new byte[8192];
        try {
            int n = 0;
            while (n >= 0 && !isClosed()) {
                n = in.read(chunk);
                add(chunk, n);
            }
        } catch (IOException e) {
            fail(e);
        } catch (RuntimeException e) {
            fail(new IOException(e));
        }
        if (isClosed()) {
            try {
                in.close();
            } catch (IOException e) {
                // the application has closed the body and does not expect an error
            }
        }
    }

    private synchronized void add(byte[] chunk, int n) {
        if (n < 0) {
            ended = true;
        } else {
            more.write(chunk, 0, n);
        }
        notifyAll();
    }

    private synchronized void fail(IOException error) {
        failure = error;
        ended = true;
        notifyAll();
    }

    private synchronized boolean isClosed() {
        return closed;
    }

    /** Waits at most this long. Returns whether the body has ended. */
    synchronized boolean awaitEnd(long ms) {
        long deadline = System.nanoTime() + ms * 1_000_000;
        try {
            for (long left = ms; !ended && left > 0; left = (deadline - System.nanoTime()) / 1_000_000) {
                wait(left);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return ended;
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xFF;
    }

    @Override
    public int read(byte[] b, int from, int length) throws IOException {
        return take(b, from, length);
    }

    /** Waits for bytes. Like the read of a socket, this is not interruptible. */
    private synchronized int take(byte[] b, int from, int length) throws IOException {
        boolean isInterrupted = false;
        if (closed) {
            throw new IOException("closed");
        }
        while (taken == bytes.length && more.size() == 0 && !ended) {
            try {
                wait();
            } catch (InterruptedException e) {
                isInterrupted = true;
            }
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
        if (taken == bytes.length) {
            bytes = more.toByteArray();
            more.reset();
            taken = 0;
        }
        if (taken == bytes.length) {
            if (failure != null) {
                throw failure;
            }
            return -1;
        }
        int n = Math.min(length, bytes.length - taken);
        System.arraycopy(bytes, taken, b, from, n);
        taken += n;
        return n;
    }

    @Override
    public synchronized int available() {
        return bytes.length - taken + more.size();
    }

    @Override
    public void close() throws IOException {
        boolean isReading;
        synchronized (this) {
            isReading = !ended;
            closed = true;
        }
        if (isReading) {
            abort.run(); // the reading thread closes the body
        } else {
            in.close();
        }
    }
}

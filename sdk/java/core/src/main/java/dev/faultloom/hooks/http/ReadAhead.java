package dev.faultloom.hooks.http;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;

/**
 * Reads a body on a thread of its own, without blocking its reader. At most {@link TailInputStream#MAX_EAGER} bytes and
 * one read are kept in memory: a body may be longer than its reply declared.
 */
final class ReadAhead extends InputStream {
    private final InputStream in;
    private final Runnable abort;
    private byte[] bytes = new byte[0]; // read and not returned yet
    private int taken;
    private final ByteArrayOutputStream more = new ByteArrayOutputStream(); // read after {@link #bytes}
    private boolean ended;
    private boolean closed;
    private Throwable failure;

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
        try {
            byte[] chunk = new byte[8192];
            int n = 0;
            while (n >= 0 && awaitRoom()) {
                n = in.read(chunk);
                add(chunk, n);
            }
        } catch (Throwable e) { // also an Error: the application waits for the end
            fail(e);
        }
        if (isClosed()) {
            try {
                in.close();
            } catch (IOException e) {
                // the application has closed the body and does not expect an error
            }
        }
    }

    /** Waits until more may be read; false: the application has closed the body. */
    private synchronized boolean awaitRoom() throws InterruptedException {
        while (!closed && available() > TailInputStream.MAX_EAGER) {
            wait();
        }
        return !closed;
    }

    private synchronized void add(byte[] chunk, int n) {
        if (n < 0) {
            ended = true;
        } else {
            more.write(chunk, 0, n);
        }
        notifyAll();
    }

    private synchronized void fail(Throwable error) {
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
        return TailInputStream.readByte(this);
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
                throw failure instanceof IOException ? (IOException) failure : new IOException(failure);
            }
            return -1;
        }
        int n = Math.min(length, bytes.length - taken);
        System.arraycopy(bytes, taken, b, from, n);
        taken += n;
        notifyAll();
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
            notifyAll();
        }
        if (isReading) {
            abort.run(); // the reading thread closes the body
        } else {
            in.close();
        }
    }
}

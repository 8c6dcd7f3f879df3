package dev.faultloom.hooks.jakarta;

import dev.faultloom.http.HeldReply;
import jakarta.servlet.ServletOutputStream;
import jakarta.servlet.WriteListener;
import java.io.IOException;

/** Where the application writes to. */
final class ServedOutput extends ServletOutputStream {
    private final HeldReply held;
    private final Container container;
    private boolean quiet;

    /** The container's own stream. */
    interface Container {
        ServletOutputStream stream() throws IOException;
    }

    ServedOutput(HeldReply held, Container container) {
        this.held = held;
        this.container = container;
    }

    /** Runs something that flushes us, without letting the headers go. */
    void quietly(Runnable flush) {
        quiet = true;
        try {
            flush.run();
        } finally {
            quiet = false;
        }
    }

    @Override
    public void write(int b) throws IOException {
        held.write(b);
    }

    @Override
    public void write(byte[] b, int from, int length) throws IOException {
        held.write(b, from, length);
    }

    @Override
    public void flush() throws IOException {
        if (!quiet) {
            held.flush();
        }
    }

    /** The end of the body is not the end of the request: what goes behind it comes later. */
    @Override
    public void close() {}

    @Override
    public boolean isReady() {
        try {
            return !held.committed() || container.stream().isReady();
        } catch (IOException e) {
            return true; // the next write will tell
        }
    }

    @Override
    public void setWriteListener(WriteListener listener) {
        try {
            held.release();
            container.stream().setWriteListener(listener);
        } catch (IOException e) {
            listener.onError(e);
        }
    }
}

package dev.faultloom.hooks.jakarta;

import dev.faultloom.hooks.http.BufferedReply;
import jakarta.servlet.ServletOutputStream;
import jakarta.servlet.WriteListener;
import java.io.IOException;

/** The output stream of the application, which writes to the buffered reply. */
final class ServerOutput extends ServletOutputStream {
    private final BufferedReply reply;
    private final Container container;
    private boolean ignoresFlush;

    /** Access to the container's stream. */
    interface Container {
        ServletOutputStream stream() throws IOException;
    }

    ServerOutput(BufferedReply reply, Container container) {
        this.reply = reply;
        this.container = container;
    }

    /** Runs an action that flushes this stream, without sending the headers. */
    void withoutFlush(Runnable flush) {
        ignoresFlush = true;
        try {
            flush.run();
        } finally {
            ignoresFlush = false;
        }
    }

    @Override
    public void write(int b) throws IOException {
        reply.write(b);
    }

    @Override
    public void write(byte[] b, int from, int length) throws IOException {
        reply.write(b, from, length);
    }

    @Override
    public void flush() throws IOException {
        if (!ignoresFlush) {
            reply.flush();
        }
    }

    /** Does nothing: the tail may still follow the body. */
    @Override
    public void close() {}

    @Override
    public boolean isReady() {
        try {
            return !reply.isCommitted() || container.stream().isReady();
        } catch (IOException e) {
            return true; // the next write reports the error
        }
    }

    @Override
    public void setWriteListener(WriteListener listener) {
        try {
            reply.commit();
            container.stream().setWriteListener(listener);
        } catch (IOException e) {
            listener.onError(e);
        }
    }
}

package dev.faultloom.hooks.jakarta;

import dev.faultloom.hooks.http.BufferedReply;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Names;
import jakarta.servlet.ServletOutputStream;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpServletResponseWrapper;
import java.io.IOException;
import java.io.OutputStream;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.util.Collection;
import java.util.function.Supplier;

/** The response for the application, buffered until its history is known. */
final class ServerResponse extends HttpServletResponseWrapper {
    private final HttpServletRequest request;
    private final Supplier<String> route;
    private final Reply reply;
    private ServerOutput output;
    private PrintWriter writer;
    private long declaredLength = -1; // -1: none
    private ContainerReply containerReply; // null: the application writes the reply

    /** A reply that the container writes: an error page or a redirect. */
    private interface ContainerReply {
        void write() throws IOException;
    }

    /** {@code route}: returns the template of the request's route, or null. */
    ServerResponse(HttpServletResponse response, Scope scope, HttpServletRequest request, Supplier<String> route) {
        super(response);
        this.request = request;
        this.route = route;
        this.reply = new Reply(scope);
    }

    private final class Reply extends BufferedReply {
        private int containerStatus;

        Reply(Scope scope) {
            super(scope, request.getMethod(), name -> ServletHooks.header(request, name));
        }

        @Override
        protected int status() {
            return containerReply != null ? containerStatus : getStatus();
        }

        @Override
        protected String header(String name) {
            if (name.equals("content-type")) {
                return getContentType();
            }
            Collection<String> values = getHeaders(name);
            return values == null || values.isEmpty() ? null : String.join(", ", values);
        }

        @Override
        protected void setHeader(String name, String value) {
            ServerResponse.super.setHeader(name, value);
        }

        @Override
        protected OutputStream sendHeaders(long length) throws IOException {
            long known = length == DECLARED_LENGTH ? declaredLength : length;
            if (known >= 0) {
                ServerResponse.super.setContentLengthLong(known);
            }
            return ServerResponse.super.getOutputStream();
        }

        @Override
        protected String name() {
            String template = route.get();
            return template != null
                    ? request.getMethod() + " " + template
                    : Names.normalizeHttpName(Names.rawHttpName(request.getMethod(), request.getRequestURI()));
        }
    }

    /** Completes the reply after the application has completed. */
    void finish() throws IOException {
        if (containerReply != null) {
            reply.finishInHeader(reply.status());
            containerReply.write();
            return;
        }
        if (writer != null) {
            output.withoutFlush(writer::flush);
        }
        reply.finish(reply.status());
    }

    /**
     * Finishes the scope after the application threw. The container writes the reply, with the history in a header if
     * possible.
     */
    void finishAfterError() {
        reply.finishInHeader(500);
    }

    @Override
    public ServletOutputStream getOutputStream() throws IOException {
        if (writer != null) {
            throw new IllegalStateException("getWriter() has been called for this response");
        }
        return output();
    }

    private ServerOutput output() {
        if (output == null) {
            output = new ServerOutput(reply, () -> ServerResponse.super.getOutputStream());
        }
        return output;
    }

    @Override
    public PrintWriter getWriter() throws IOException {
        if (writer == null) {
            if (output != null) {
                throw new IllegalStateException("getOutputStream() has been called for this response");
            }
            super.setCharacterEncoding(getCharacterEncoding()); // explicitly, as the container does in getWriter
            writer = new PrintWriter(new OutputStreamWriter(output(), getCharacterEncoding()));
        }
        return writer;
    }

    @Override
    public void flushBuffer() throws IOException {
        if (writer != null) {
            output.withoutFlush(writer::flush);
        }
        reply.commit();
        super.flushBuffer();
    }

    @Override
    public boolean isCommitted() {
        return containerReply != null || reply.isCommitted() || super.isCommitted();
    }

    @Override
    public void reset() {
        super.reset();
        reply.reset();
        declaredLength = -1;
        output = null;
        writer = null;
    }

    @Override
    public void resetBuffer() {
        if (isCommitted()) {
            throw new IllegalStateException("the response has been committed");
        }
        if (writer != null) {
            output.withoutFlush(writer::flush);
        }
        reply.reset();
    }

    private void endWith(int status, ContainerReply written) {
        if (isCommitted()) {
            throw new IllegalStateException("the response has been committed");
        }
        resetBuffer();
        containerReply = written;
        reply.containerStatus = status;
    }

    @Override
    public void sendError(int status) throws IOException {
        endWith(status, () -> super.sendError(status));
    }

    @Override
    public void sendError(int status, String message) throws IOException {
        endWith(status, () -> super.sendError(status, message));
    }

    @Override
    public void sendRedirect(String location) throws IOException {
        endWith(SC_FOUND, () -> super.sendRedirect(location));
    }

    @Override
    public void setContentLength(int length) {
        declareLength(length);
    }

    @Override
    public void setContentLengthLong(long length) {
        declareLength(length);
    }

    private void declareLength(long length) {
        if (!reply.isCommitted()) {
            declaredLength = length;
        }
    }

    private boolean declaresLength(String name, String value) {
        if (!"content-length".equalsIgnoreCase(name)) {
            return false;
        }
        try {
            declareLength(value == null ? -1 : Long.parseLong(value.trim()));
        } catch (NumberFormatException e) {
            declareLength(-1);
        }
        return true;
    }

    @Override
    public void setHeader(String name, String value) {
        if (!declaresLength(name, value)) {
            super.setHeader(name, value);
        }
    }

    @Override
    public void addHeader(String name, String value) {
        if (!declaresLength(name, value)) {
            super.addHeader(name, value);
        }
    }

    @Override
    public void setIntHeader(String name, int value) {
        if (!declaresLength(name, Integer.toString(value))) {
            super.setIntHeader(name, value);
        }
    }

    @Override
    public void addIntHeader(String name, int value) {
        if (!declaresLength(name, Integer.toString(value))) {
            super.addIntHeader(name, value);
        }
    }

    @Override
    public boolean containsHeader(String name) {
        return "content-length".equalsIgnoreCase(name) ? declaredLength >= 0 : super.containsHeader(name);
    }
}

package dev.faultloom.hooks.jakarta;

import dev.faultloom.http.HeldReply;
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

/** The response as the application sees it, held back until its history is known. */
final class ServedResponse extends HttpServletResponseWrapper {
    private static final String SPRING_PATTERN = "org.springframework.web.servlet.HandlerMapping.bestMatchingPattern";

    private final HttpServletRequest request;
    private final Held held;
    private ServedOutput output;
    private PrintWriter writer;
    private long declared = -1;
    private Ending ending; // that the container is to write

    /** What the application left to the container: an error page or a redirect. */
    private interface Ending {
        void write() throws IOException;
    }

    ServedResponse(HttpServletResponse response, Scope scope, HttpServletRequest request) {
        super(response);
        this.request = request;
        this.held = new Held(scope);
    }

    private final class Held extends HeldReply {
        private int ended; // status of the ending

        Held(Scope scope) {
            super(scope, request.getMethod(), name -> ServletHooks.header(request, name));
        }

        @Override
        protected int status() {
            return ending != null ? ended : getStatus();
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
            ServedResponse.super.setHeader(name, value);
        }

        @Override
        protected OutputStream commit(long length) throws IOException {
            long whole = length == -2 ? declared : length;
            if (whole >= 0) {
                ServedResponse.super.setContentLengthLong(whole);
            }
            return ServedResponse.super.getOutputStream();
        }

        @Override
        protected String name() {
            Object pattern = request.getAttribute(SPRING_PATTERN);
            return pattern instanceof String && !((String) pattern).equals("/**")
                    ? request.getMethod() + " " + request.getContextPath() + pattern
                    : Names.normal(Names.raw(request.getMethod(), request.getRequestURI()));
        }
    }

    /** The application has completed. */
    void finish() throws IOException {
        if (ending != null) {
            held.finishHeader(held.status());
            ending.write();
            return;
        }
        if (writer != null) {
            output.quietly(writer::flush);
        }
        held.finish(held.status());
    }

    /** The application has thrown: the container answers, with our header if there is still room for one. */
    void fail() {
        held.finishHeader(500);
    }

    @Override
    public ServletOutputStream getOutputStream() throws IOException {
        if (writer != null) {
            throw new IllegalStateException("getWriter() has been called for this response");
        }
        return output();
    }

    private ServedOutput output() {
        if (output == null) {
            output = new ServedOutput(held, () -> ServedResponse.super.getOutputStream());
        }
        return output;
    }

    @Override
    public PrintWriter getWriter() throws IOException {
        if (writer == null) {
            if (output != null) {
                throw new IllegalStateException("getOutputStream() has been called for this response");
            }
            super.setCharacterEncoding(getCharacterEncoding()); // said aloud, as the container would now
            writer = new PrintWriter(new OutputStreamWriter(output(), getCharacterEncoding()));
        }
        return writer;
    }

    @Override
    public void flushBuffer() throws IOException {
        if (writer != null) {
            output.quietly(writer::flush);
        }
        held.release();
        super.flushBuffer();
    }

    @Override
    public boolean isCommitted() {
        return ending != null || held.committed() || super.isCommitted();
    }

    @Override
    public void reset() {
        super.reset();
        held.reset();
        declared = -1;
        output = null;
        writer = null;
    }

    @Override
    public void resetBuffer() {
        if (isCommitted()) {
            throw new IllegalStateException("the response has been committed");
        }
        if (writer != null) {
            output.quietly(writer::flush);
        }
        held.reset();
    }

    private void end(int status, Ending how) {
        if (isCommitted()) {
            throw new IllegalStateException("the response has been committed");
        }
        resetBuffer();
        ending = how;
        held.ended = status;
    }

    @Override
    public void sendError(int status) throws IOException {
        end(status, () -> super.sendError(status));
    }

    @Override
    public void sendError(int status, String message) throws IOException {
        end(status, () -> super.sendError(status, message));
    }

    @Override
    public void sendRedirect(String location) throws IOException {
        end(SC_FOUND, () -> super.sendRedirect(location));
    }

    @Override
    public void setContentLength(int length) {
        declare(length);
    }

    @Override
    public void setContentLengthLong(long length) {
        declare(length);
    }

    private void declare(long length) {
        if (!held.committed()) {
            declared = length;
        }
    }

    private boolean declared(String name, String value) {
        if (!"content-length".equalsIgnoreCase(name)) {
            return false;
        }
        try {
            declare(value == null ? -1 : Long.parseLong(value.trim()));
        } catch (NumberFormatException e) {
            declare(-1);
        }
        return true;
    }

    @Override
    public void setHeader(String name, String value) {
        if (!declared(name, value)) {
            super.setHeader(name, value);
        }
    }

    @Override
    public void addHeader(String name, String value) {
        if (!declared(name, value)) {
            super.addHeader(name, value);
        }
    }

    @Override
    public void setIntHeader(String name, int value) {
        if (!declared(name, Integer.toString(value))) {
            super.setIntHeader(name, value);
        }
    }

    @Override
    public void addIntHeader(String name, int value) {
        if (!declared(name, Integer.toString(value))) {
            super.addIntHeader(name, value);
        }
    }

    @Override
    public boolean containsHeader(String name) {
        return "content-length".equalsIgnoreCase(name) ? declared >= 0 : super.containsHeader(name);
    }
}

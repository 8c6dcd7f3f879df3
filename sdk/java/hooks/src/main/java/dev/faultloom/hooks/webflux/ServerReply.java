package dev.faultloom.hooks.webflux;

import dev.faultloom.hooks.http.BufferedReply;
import dev.faultloom.hooks.http.RouteTemplate;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Names;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import org.springframework.http.HttpHeaders;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.web.server.ServerWebExchange;

/** The reply of a request. What is to be sent is collected, and {@link TracedResponse} sends it. */
final class ServerReply extends BufferedReply {
    private static final String PATTERN = "org.springframework.web.reactive.HandlerMapping.bestMatchingPattern";

    private final ServerHttpRequest request;
    private final ServerHttpResponse response;
    private final ByteArrayOutputStream sent = new ByteArrayOutputStream();
    private boolean hasBytes; // of the body, sent or not
    private volatile ServerWebExchange exchange; // null: not created yet

    ServerReply(Scope scope, ServerHttpRequest request, ServerHttpResponse response) {
        super(scope, request.getMethod().name(), name -> Buffers.joinedValues(request.getHeaders(), name));
        this.request = request;
        this.response = response;
    }

    void setExchange(ServerWebExchange created) {
        exchange = created;
    }

    /** Adds bytes of the body, and returns what is to be sent now; empty: nothing. */
    byte[] add(byte[] bytes) {
        hasBytes |= bytes.length > 0;
        return run(() -> write(bytes, 0, bytes.length));
    }

    /** Ends the buffering, and returns what is to be sent now. */
    byte[] commitNow() {
        return run(this::commit);
    }

    /** {@link #commitNow}, unless there is nothing to send. */
    byte[] flushNow() {
        return hasBytes ? commitNow() : new byte[0];
    }

    /** Ends the reply, and returns what is to be sent now. */
    byte[] end() {
        return run(() -> finish(status()));
    }

    private interface Step {
        void run() throws IOException;
    }

    private byte[] run(Step step) {
        try {
            step.run();
        } catch (IOException e) {
            throw new UncheckedIOException(e); // impossible: the stream is in memory
        }
        byte[] bytes = sent.toByteArray();
        sent.reset();
        return bytes;
    }

    @Override
    protected int status() {
        return response.getStatusCode() == null ? 200 : response.getStatusCode().value();
    }

    @Override
    protected String header(String name) {
        return Buffers.joinedValues(response.getHeaders(), name);
    }

    @Override
    protected void setHeader(String name, String value) {
        if (!response.isCommitted()) {
            response.getHeaders().set(name, value);
        }
    }

    @Override
    protected OutputStream sendHeaders(long length) {
        if (!response.isCommitted()) {
            if (length >= 0) {
                response.getHeaders().setContentLength(length);
            } else if (length == UNKNOWN_LENGTH) {
                response.getHeaders().remove(HttpHeaders.CONTENT_LENGTH);
            }
        }
        return sent;
    }

    @Override
    protected String name() {
        String method = request.getMethod().name();
        ServerWebExchange served = exchange;
        Object pattern = served == null ? null : served.getAttribute(PATTERN);
        if (pattern == null || RouteTemplate.isCatchAll(pattern.toString())) {
            return Names.normalizeHttpName(Names.rawHttpName(method, request.getURI().getRawPath()));
        }
        String template = request.getPath().contextPath().value() + RouteTemplate.ofSpring(pattern.toString());
        return method + " " + (template.isEmpty() ? "/" : template);
    }
}

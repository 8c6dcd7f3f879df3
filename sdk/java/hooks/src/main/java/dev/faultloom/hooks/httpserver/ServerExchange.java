package dev.faultloom.hooks.httpserver;

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpContext;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpPrincipal;
import dev.faultloom.hooks.http.BufferedReply;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Names;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.URI;
import java.util.List;

/** An exchange with a buffered reply. The reply ends when its body, or the exchange, is closed. */
final class ServerExchange extends HttpExchange {
    private final HttpExchange exchange;
    private final Reply reply;
    private OutputStream replacedBody; // by a filter
    private int status = -1;
    private long declaredLength; // as in sendResponseHeaders

    ServerExchange(HttpExchange exchange, Scope scope) {
        this.exchange = exchange;
        this.reply = new Reply(scope);
    }

    Scope scope() {
        return reply.scope();
    }

    /** Finishes the scope after the handler threw. The library closes the connection without a reply. */
    void abandon() {
        scope().finish(scope().now(), 500, "");
    }

    private final class Reply extends BufferedReply {
        private OutputStream body;

        Reply(Scope scope) {
            super(scope, exchange.getRequestMethod(), name -> ExchangeHooks.header(exchange, name));
        }

        @Override
        protected int status() {
            return status;
        }

        @Override
        protected String header(String name) {
            List<String> values = exchange.getResponseHeaders().get(name);
            return values == null || values.isEmpty() ? null : String.join(", ", values);
        }

        @Override
        protected void setHeader(String name, String value) {
            exchange.getResponseHeaders().set(name, value);
        }

        @Override
        protected String name() {
            return Names.normalizeHttpName(Names.rawHttpName(getRequestMethod(), getRequestURI().getRawPath()));
        }

        @Override
        protected OutputStream sendHeaders(long length) throws IOException {
            // for this library 0 means an unknown length, and -1 no body
            exchange.sendResponseHeaders(status, length == DECLARED_LENGTH ? declaredLength : length == UNKNOWN_LENGTH ? 0 : length == 0 ? -1 : length);
            body = exchange.getResponseBody();
            return body;
        }

        @Override
        public void close() throws IOException {
            if (status < 0) {
                exchange.getResponseBody().close();
                return;
            }
            finish(status);
            if (body != null) {
                body.close();
            }
        }
    }

    @Override
    public void sendResponseHeaders(int code, long bodyLength) throws IOException {
        if (status >= 0) {
            throw new IOException("headers already sent");
        }
        status = code;
        declaredLength = bodyLength;
        if (bodyLength == -1) {
            reply.close(); // there is no body
        }
    }

    @Override
    public OutputStream getResponseBody() {
        return replacedBody == null ? reply : replacedBody;
    }

    @Override
    public void setStreams(InputStream in, OutputStream out) {
        if (out != null) {
            replacedBody = out;
        }
        if (in != null) {
            exchange.setStreams(in, null);
        }
    }

    @Override
    public void close() {
        try {
            reply.close();
        } catch (IOException e) {
            // the connection is closed
        }
        exchange.close();
    }

    @Override
    public int getResponseCode() {
        return status;
    }

    @Override
    public Headers getRequestHeaders() {
        return exchange.getRequestHeaders();
    }

    @Override
    public Headers getResponseHeaders() {
        return exchange.getResponseHeaders();
    }

    @Override
    public URI getRequestURI() {
        return exchange.getRequestURI();
    }

    @Override
    public String getRequestMethod() {
        return exchange.getRequestMethod();
    }

    @Override
    public HttpContext getHttpContext() {
        return exchange.getHttpContext();
    }

    @Override
    public InputStream getRequestBody() {
        return exchange.getRequestBody();
    }

    @Override
    public InetSocketAddress getRemoteAddress() {
        return exchange.getRemoteAddress();
    }

    @Override
    public InetSocketAddress getLocalAddress() {
        return exchange.getLocalAddress();
    }

    @Override
    public String getProtocol() {
        return exchange.getProtocol();
    }

    @Override
    public Object getAttribute(String name) {
        return exchange.getAttribute(name);
    }

    @Override
    public void setAttribute(String name, Object value) {
        exchange.setAttribute(name, value);
    }

    @Override
    public HttpPrincipal getPrincipal() {
        return exchange.getPrincipal();
    }
}

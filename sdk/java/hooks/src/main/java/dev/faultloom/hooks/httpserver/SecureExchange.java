package dev.faultloom.hooks.httpserver;

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpContext;
import com.sun.net.httpserver.HttpPrincipal;
import com.sun.net.httpserver.HttpsExchange;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.URI;
import javax.net.ssl.SSLSession;

/** {@link ServerExchange} over TLS, whose handlers may use the type for that. */
final class SecureExchange extends HttpsExchange {
    private final HttpsExchange exchange;
    private final ServerExchange traced;

    SecureExchange(HttpsExchange exchange, ServerExchange traced) {
        this.exchange = exchange;
        this.traced = traced;
    }

    ServerExchange traced() {
        return traced;
    }

    @Override
    public SSLSession getSSLSession() {
        return exchange.getSSLSession();
    }

    @Override
    public Headers getRequestHeaders() {
        return traced.getRequestHeaders();
    }

    @Override
    public Headers getResponseHeaders() {
        return traced.getResponseHeaders();
    }

    @Override
    public URI getRequestURI() {
        return traced.getRequestURI();
    }

    @Override
    public String getRequestMethod() {
        return traced.getRequestMethod();
    }

    @Override
    public HttpContext getHttpContext() {
        return traced.getHttpContext();
    }

    @Override
    public void close() {
        traced.close();
    }

    @Override
    public InputStream getRequestBody() {
        return traced.getRequestBody();
    }

    @Override
    public OutputStream getResponseBody() {
        return traced.getResponseBody();
    }

    @Override
    public void sendResponseHeaders(int code, long bodyLength) throws IOException {
        traced.sendResponseHeaders(code, bodyLength);
    }

    @Override
    public InetSocketAddress getRemoteAddress() {
        return traced.getRemoteAddress();
    }

    @Override
    public int getResponseCode() {
        return traced.getResponseCode();
    }

    @Override
    public InetSocketAddress getLocalAddress() {
        return traced.getLocalAddress();
    }

    @Override
    public String getProtocol() {
        return traced.getProtocol();
    }

    @Override
    public Object getAttribute(String name) {
        return traced.getAttribute(name);
    }

    @Override
    public void setAttribute(String name, Object value) {
        traced.setAttribute(name, value);
    }

    @Override
    public void setStreams(InputStream in, OutputStream out) {
        traced.setStreams(in, out);
    }

    @Override
    public HttpPrincipal getPrincipal() {
        return traced.getPrincipal();
    }
}

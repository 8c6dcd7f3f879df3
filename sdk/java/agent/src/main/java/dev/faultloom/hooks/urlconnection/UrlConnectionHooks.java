package dev.faultloom.hooks.urlconnection;

import dev.faultloom.hooks.faults.CallEnd;
import dev.faultloom.hooks.http.HttpCall;
import dev.faultloom.hooks.http.TailInputStream;
import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.Scope;
import dev.faultloom.scope.ScopeContext;
import dev.faultloom.scope.UnscopedCalls;
import dev.faultloom.wire.Bridge;
import dev.faultloom.wire.Envelope;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.net.ConnectException;
import java.net.HttpURLConnection;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.net.URL;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.TimeUnit;

/**
 * {@code HttpURLConnection}: called by advice in the JDK's implementation. The call begins with the first method that
 * needs the connection. If a fault does not send the request, these hooks provide the results of all methods.
 */
public final class UrlConnectionHooks {
    /** The result of {@link #connect} if the connection must not be opened. */
    public static final Object SKIP = new Object();

    private static final Map<HttpURLConnection, Exchange> EXCHANGES = Collections.synchronizedMap(new WeakHashMap<>());
    /** Requests without a scope that were counted. */
    private static final Map<HttpURLConnection, Boolean> COUNTED = Collections.synchronizedMap(new WeakHashMap<>());
    private static volatile boolean used;

    private UrlConnectionHooks() {}

    /** One request of a connection. */
    private static final class Exchange {
        final HttpCall call;
        IOException failure; // of a request that is not sent, or whose reply is lost
        int faultStatus; // of a status fault, or 0
        boolean replyProcessed;
        boolean isReentrant; // the hooks themselves call the connection
        int depth; // of getInputStream, which calls itself through getResponseCode
        InputStream input;
        InputStream error;

        Exchange(HttpCall call) {
            this.call = call;
        }

        boolean isUnsent() {
            return failure != null || faultStatus != 0;
        }
    }

    /** Before connecting. Not null: skip it. */
    public static Object connect(HttpURLConnection connection) throws IOException {
        Exchange exchange = exchange(connection, false);
        return exchange != null && exchange.isUnsent() ? skipConnect(exchange) : null;
    }

    /** Before {@code getOutputStream}. Not null: its result. */
    public static Object output(HttpURLConnection connection) throws IOException {
        Exchange exchange = exchange(connection, true);
        return exchange != null && exchange.isUnsent() && skipConnect(exchange) != null ? OutputStream.nullOutputStream() : null;
    }

    /** Before {@code getInputStream}. Not null: its result. */
    public static Object input(HttpURLConnection connection) throws IOException {
        Exchange exchange = exchange(connection, false);
        if (exchange == null || exchange.isReentrant) {
            return null;
        }
        if (exchange.failure != null) {
            throw exchange.failure;
        }
        int status = exchange.faultStatus;
        if (status == 404 || status == 410) {
            throw new FileNotFoundException(connection.getURL().toString());
        }
        if (status >= 400) {
            throw new IOException("Server returned HTTP response code: " + status + " for URL: " + connection.getURL());
        }
        if (status != 0) {
            return InputStream.nullInputStream();
        }
        if (exchange.input == null) {
            exchange.depth++;
        }
        return exchange.input;
    }

    /** Before {@code getErrorStream}. Not null: its result. */
    public static Object error(HttpURLConnection connection) {
        Exchange exchange = used ? EXCHANGES.get(connection) : null;
        if (exchange == null || exchange.isReentrant) {
            return null;
        }
        return exchange.faultStatus >= 400 ? InputStream.nullInputStream() : exchange.error;
    }

    /** A refused connection fails when it connects; other failures occur when the reply is read. */
    private static Object skipConnect(Exchange exchange) throws IOException {
        if (exchange.failure instanceof ConnectException) {
            throw exchange.failure;
        }
        return SKIP;
    }

    private static Exchange exchange(HttpURLConnection connection, boolean output) {
        Exchange present = used ? EXCHANGES.get(connection) : null;
        if (present != null) {
            return present;
        }
        if (!Scope.anyUnfinished()) {
            return null;
        }
        ScopeContext context = CurrentScope.context();
        if (context == null || context.scope() == null) {
            countOnce(context, connection, output);
            return null;
        }
        try {
            return begin(context, connection, output);
        } catch (RuntimeException | LinkageError e) {
            return null; // connected before the scope was bound, or an unknown implementation
        }
    }

    /** Counts a request that belongs to no scope, with the first of its methods. */
    private static void countOnce(ScopeContext context, HttpURLConnection connection, boolean output) {
        if (UnscopedCalls.counts(context) && COUNTED.put(connection, true) == null) {
            URL url = connection.getURL();
            UnscopedCalls.addHttp(
                    HttpCall.authority(url.getProtocol(), url.getHost(), url.getPort()), method(connection, output), url.getPath());
        }
    }

    /** The method of the request, which is POST if it has a body. */
    private static String method(HttpURLConnection connection, boolean output) {
        String method = connection.getRequestMethod();
        return method.equals("GET") && (output || connection.getDoOutput()) ? "POST" : method;
    }

    private static Exchange begin(ScopeContext context, HttpURLConnection connection, boolean output) {
        // removes an envelope that the application forwarded; throws if the connection is open
        connection.setRequestProperty(Envelope.HTTP_HEADER, null);
        URL url = connection.getURL();
        String method = method(connection, output);
        boolean tail = ResponseHeaders.ACCESSIBLE && HttpCall.canRemoveTail(method, connection::getRequestProperty);
        int timeoutMs = connection.getReadTimeout();
        long timeoutNanos = timeoutMs == 0 ? Long.MAX_VALUE : TimeUnit.MILLISECONDS.toNanos(timeoutMs);
        HttpCall call = HttpCall.begin(
                context, url.getProtocol(), url.getHost(), url.getPort(), method, url.getPath(), tail, timeoutNanos);
        if (call == null) {
            return null;
        }
        Exchange exchange = new Exchange(call);
        EXCHANGES.put(connection, exchange);
        used = true;
        applyFault(exchange, connection);
        if (!exchange.isUnsent() && call.header() != null) {
            connection.setRequestProperty(Envelope.HTTP_HEADER, call.header());
            if (call.isBridged()) {
                Bridge bridge = call.injectBridge(
                        connection.getRequestProperty(Bridge.TRACEPARENT),
                        connection.getRequestProperty(Bridge.BAGGAGE));
                connection.setRequestProperty(Bridge.TRACEPARENT, bridge.traceparent);
                connection.setRequestProperty(Bridge.BAGGAGE, bridge.baggage);
            }
        }
        return exchange;
    }

    private static void applyFault(Exchange exchange, HttpURLConnection connection) {
        HttpCall call = exchange.call;
        try {
            if (call.waitForFault()) {
                return;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            exchange.failure = new InterruptedIOException("interrupted");
            return;
        }
        call.recordUnsent();
        CallEnd end = call.effect.end;
        switch (end.outcome) {
            case REFUSED:
                exchange.failure = new ConnectException("Connection refused");
                break;
            case RESET:
                exchange.failure = new SocketException("Connection reset");
                break;
            case STATUS:
                exchange.faultStatus = call.faultStatus();
                ResponseHeaders.setStatus(connection, exchange.faultStatus);
                break;
            default:
                exchange.failure = new SocketTimeoutException("Read timed out");
        }
    }

    /** After {@code getInputStream}. Returns the body for the application. */
    public static Object replied(HttpURLConnection connection, Object body, Throwable error) throws IOException {
        Exchange exchange = used ? EXCHANGES.get(connection) : null;
        if (exchange == null || exchange.isReentrant) {
            return body;
        }
        exchange.depth = Math.max(0, exchange.depth - 1); // 0 if the hooks were installed during the call
        if (exchange.depth > 0 || exchange.replyProcessed || exchange.isUnsent()) {
            return body;
        }
        exchange.replyProcessed = true;
        exchange.isReentrant = true;
        try {
            // after a failure, asking the connection could send the request again
            if (error == null ? connection.getHeaderField(0) == null : !ResponseHeaders.hasAny(connection)) {
                exchange.call.recordFailure(error == null ? new IOException("no reply") : error);
                return body;
            }
            receive(exchange, connection, (InputStream) body, error != null);
        } catch (RuntimeException | LinkageError e) {
            return body; // an unknown implementation
        } finally {
            exchange.isReentrant = false;
        }
        if (exchange.call.effect.losesReply()) {
            exchange.failure = new SocketException("Connection reset");
            throw exchange.failure;
        }
        return exchange.input == null ? body : exchange.input;
    }

    private static void receive(Exchange exchange, HttpURLConnection connection, InputStream body, boolean failed) throws IOException {
        HttpCall call = exchange.call;
        boolean tail = call.replyStarted(connection.getResponseCode(), connection::getHeaderField);
        long received = connection.getContentLengthLong();
        ResponseHeaders.removeOurs(connection);
        InputStream in = failed ? connection.getErrorStream() : body;
        if (in == null || !TailInputStream.isNeeded(tail, call)) {
            if (tail) {
                call.recordReply(null);
            }
            return;
        }
        InputStream out = TailInputStream.of(in, tail, call);
        ResponseHeaders.setLength(connection, TailInputStream.lengthOf(out, received, null));
        if (failed) {
            exchange.error = out;
        } else {
            exchange.input = out;
        }
    }
}

package dev.faultloom.urlconnection;

import dev.faultloom.http.HttpCall;
import dev.faultloom.http.TailStream;
import dev.faultloom.scope.Current;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Bridge;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Kind;
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
 * {@code HttpURLConnection}: what advice in the JDK's implementation calls. The request is decided when the connection is
 * first told to do something; what a fault leaves undone is made up for here. It lies on the boot class path, as the
 * implementation does.
 */
public final class Connections {
    /** What {@link #connect} returns when there is to be no connection. */
    public static final Object NOTHING = new Object();
    /** A reply of at most this length is read at once when it announces a tail. */
    private static final int MAX_EAGER = 256 << 10;

    private static final Map<HttpURLConnection, Exchange> EXCHANGES = Collections.synchronizedMap(new WeakHashMap<>());
    private static volatile boolean used;

    private Connections() {}

    /** One request of a connection. */
    private static final class Exchange {
        final HttpCall call;
        IOException failure; // of a request that is not sent
        int status; // of a fault, or 0
        boolean over; // the reply has been seen
        boolean busy; // we ask the connection ourselves
        InputStream input;
        InputStream error;

        Exchange(HttpCall call) {
            this.call = call;
        }

        boolean unsent() {
            return failure != null || status != 0;
        }
    }

    /** Before connecting. Not null: there is nothing to connect to. */
    public static Object connect(HttpURLConnection connection) throws IOException {
        Exchange exchange = exchange(connection, false);
        return exchange != null && exchange.unsent() ? refused(exchange) : null;
    }

    /** Before the body is asked for. Not null: that is where it goes. */
    public static Object output(HttpURLConnection connection) throws IOException {
        Exchange exchange = exchange(connection, true);
        return exchange != null && exchange.unsent() && refused(exchange) != null ? OutputStream.nullOutputStream() : null;
    }

    /** Before the reply is asked for. Not null: that is its body. */
    public static Object input(HttpURLConnection connection) throws IOException {
        Exchange exchange = exchange(connection, false);
        if (exchange == null || exchange.busy) {
            return null;
        }
        if (exchange.failure != null) {
            throw exchange.failure;
        }
        if (exchange.status >= 400) {
            throw exchange.status == 404 || exchange.status == 410 ? new FileNotFoundException(connection.getURL().toString())
                    : new IOException("Server returned HTTP response code: " + exchange.status + " for URL: " + connection.getURL());
        }
        return exchange.status != 0 ? InputStream.nullInputStream() : exchange.input;
    }

    /** Before the body of an error is asked for. Not null: that is it. */
    public static Object error(HttpURLConnection connection) {
        Exchange exchange = used ? EXCHANGES.get(connection) : null;
        if (exchange == null || exchange.busy) {
            return null;
        }
        return exchange.status >= 400 ? InputStream.nullInputStream() : exchange.error;
    }

    private static Object refused(Exchange exchange) throws IOException {
        if (exchange.failure instanceof ConnectException) {
            throw exchange.failure;
        }
        return NOTHING;
    }

    private static Exchange exchange(HttpURLConnection connection, boolean output) {
        Exchange known = used ? EXCHANGES.get(connection) : null;
        if (known != null) {
            return known;
        }
        Scope scope = Current.get();
        if (scope == null) {
            return null;
        }
        try {
            return begin(scope, connection, output);
        } catch (RuntimeException | LinkageError e) {
            return null; // connected already, before it came into the scope; or something we do not know
        }
    }

    private static Exchange begin(Scope scope, HttpURLConnection connection, boolean output) {
        connection.setRequestProperty(Envelope.HTTP_HEADER, null); // one that the application passed on; throws if it is too late
        URL url = connection.getURL();
        String method = connection.getRequestMethod();
        method = method.equals("GET") && (output || connection.getDoOutput()) ? "POST" : method;
        HttpCall call = HttpCall.begin(scope, url.getProtocol(), url.getHost(), url.getPort(), method, url.getPath(),
                Replies.READABLE && HttpCall.tailPossible(method, connection::getRequestProperty));
        if (call == null) {
            return null;
        }
        Exchange exchange = new Exchange(call);
        EXCHANGES.put(connection, exchange);
        used = true;
        decide(exchange, connection);
        if (!exchange.unsent() && call.header() != null) {
            connection.setRequestProperty(Envelope.HTTP_HEADER, call.header());
            if (call.bridged()) {
                connection.setRequestProperty(Bridge.TRACEPARENT, call.traceparent(connection.getRequestProperty(Bridge.TRACEPARENT)));
                connection.setRequestProperty(Bridge.BAGGAGE, call.baggage(connection.getRequestProperty(Bridge.BAGGAGE)));
            }
        }
        return exchange;
    }

    private static void decide(Exchange exchange, HttpURLConnection connection) {
        HttpCall call = exchange.call;
        if (call.waits()) {
            long limit = TimeUnit.MILLISECONDS.toNanos(connection.getReadTimeout());
            try {
                if (!call.await(limit == 0 ? Long.MAX_VALUE : limit)) {
                    exchange.failure = new SocketTimeoutException("Read timed out");
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                exchange.failure = new InterruptedIOException("interrupted");
            }
        } else if (call.refused()) {
            call.recordRefused();
            if (call.kind == Kind.STATUS) {
                exchange.status = call.faultStatus();
                Replies.answer(connection, exchange.status);
            } else {
                exchange.failure = call.kind == Kind.UNAVAILABLE ? new ConnectException("Connection refused")
                        : call.kind == Kind.DEADLINE ? new SocketTimeoutException("Read timed out") : new SocketException("Connection reset");
            }
        }
    }

    /** After the reply was asked for: the body that the application is to read. */
    public static Object replied(HttpURLConnection connection, Object body, Throwable error) throws IOException {
        Exchange exchange = used ? EXCHANGES.get(connection) : null;
        if (exchange == null || exchange.busy || exchange.over || exchange.unsent()) {
            return body;
        }
        exchange.over = true;
        exchange.busy = true;
        try {
            if (connection.getHeaderField(0) == null) {
                exchange.call.failed(error == null ? new IOException("no reply") : error);
                return body;
            }
            seen(exchange, connection, (InputStream) body, error != null);
        } catch (RuntimeException | LinkageError e) {
            return body; // something we do not know
        } finally {
            exchange.busy = false;
        }
        if (exchange.call.kind == Kind.LOST_REPLY) {
            exchange.failure = new SocketException("Connection reset");
            throw exchange.failure;
        }
        return exchange.input == null ? body : exchange.input;
    }

    private static void seen(Exchange exchange, HttpURLConnection connection, InputStream body, boolean failed) throws IOException {
        HttpCall call = exchange.call;
        boolean tail = call.replied(connection.getResponseCode(), connection::getHeaderField);
        long known = connection.getContentLengthLong();
        Replies.clean(connection);
        InputStream in = failed ? connection.getErrorStream() : body;
        if (in == null || (!tail && !call.changesBody() && call.kind != Kind.LOST_REPLY)) {
            if (tail) {
                call.ended(null);
            }
            return;
        }
        InputStream out = TailStream.of(in, tail, call);
        long length = -1;
        if (out instanceof TailStream && known >= 0 && known <= MAX_EAGER) {
            // a length means that the callee had finished: everything is on its way, and what the program does next may depend on it
            ((TailStream) out).prefetch();
            length = ((TailStream) out).length();
        } else if (!(out instanceof TailStream)) {
            length = out.available(); // changed by a fault, all of it here
        }
        Replies.setLength(connection, length);
        if (failed) {
            exchange.error = out;
        } else {
            exchange.input = out;
        }
    }
}

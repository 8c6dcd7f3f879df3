package dev.faultloom.http;

import dev.faultloom.scope.Call;
import dev.faultloom.scope.Scope;
import dev.faultloom.scope.Waits;
import dev.faultloom.wire.Bytes;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Headers;
import dev.faultloom.wire.Kind;
import dev.faultloom.wire.Text;
import java.io.EOFException;
import java.io.IOException;
import java.net.ConnectException;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.util.Locale;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;

/** One request that a scope sends over HTTP, from the decision to the record of its end. Safe for concurrent use. */
public final class HttpCall {
    private static final int CANCELLED = 1;
    private static final int UNKNOWN = 2;
    private static final int DEADLINE_EXCEEDED = 4;
    private static final int UNAVAILABLE = 14;

    private final Scope scope;
    private final Call call;
    /** What a fault does, or null. */
    public final Kind kind;
    private int status;
    private byte[] history;
    private boolean over;

    private HttpCall(Scope scope, Call call) {
        this.scope = scope;
        this.call = call;
        this.kind = call.fault == null ? null : call.fault.kind;
    }

    /**
     * Decides about a request; null: it is to be sent as it is.
     *
     * @param tail whether a tail could be cut off the reply's body, see {@link #tailPossible}
     */
    public static HttpCall begin(Scope scope, String scheme, String host, int port, String method, String target, boolean tail) {
        try {
            Call call = scope == null ? null : scope.sendHttp(authority(scheme, host, port), method, target, tail);
            return call == null ? null : new HttpCall(scope, call);
        } catch (RuntimeException e) {
            return null; // whatever is wrong, the request is to be sent
        }
    }

    /** {@code host:port}, with the scheme's own port if there is none. */
    public static String authority(String scheme, String host, int port) {
        int real = port > 0 ? port : "https".equalsIgnoreCase(scheme) ? 443 : 80;
        return (host.indexOf(':') >= 0 && !host.startsWith("[") ? "[" + host + "]" : host) + ":" + real;
    }

    /** Whether a reply to this request could have its tail cut off again: the body must come as the callee wrote it. */
    public static boolean tailPossible(String method, Headers request) {
        String encodings = request.get("accept-encoding");
        return !method.equals("HEAD") && request.get("range") == null && request.get("upgrade") == null
                && (encodings == null || encodings.trim().equalsIgnoreCase("identity"));
    }

    public Scope scope() {
        return scope;
    }

    /** What the request's header {@code x-faultloom} is to be; null: it gets none. */
    public String header() {
        return call.header();
    }

    /** Whether {@code traceparent} and {@code baggage} go along as well. */
    public boolean bridged() {
        return call.bridged();
    }

    public String traceparent(String present) {
        return call.traceparent(present);
    }

    public String baggage(String present) {
        return call.baggage(present);
    }

    /** Whether the request is not sent at all, with nothing to wait for. */
    public boolean refused() {
        return kind == Kind.UNAVAILABLE || kind == Kind.RESET || kind == Kind.DEADLINE || kind == Kind.STATUS;
    }

    /** Whether there is something to wait for before the request is sent, or not sent. */
    public boolean waits() {
        return kind == Kind.DELAY || kind == Kind.HANG;
    }

    /** Whether the reply's body is to be changed, for which all of it is needed. */
    public boolean changesBody() {
        return kind == Kind.EMPTY_REPLY || kind == Kind.CORRUPT_REPLY;
    }

    /** The status that a caller sees for a fault's number; what cannot be arrives as 500. */
    public int faultStatus() {
        return call.fault.arg >= 200 && call.fault.arg <= 999 ? (int) call.fault.arg : 500;
    }

    /**
     * Blocks for a delay or hang. True: the request is to be sent now; false: it has timed out, which is recorded.
     *
     * @param remainingNanos until the caller's own deadline; Long.MAX_VALUE: none
     */
    public boolean await(long remainingNanos) throws InterruptedException {
        try {
            return waited(Waits.await(scope.process(), call.fault, remainingNanos));
        } catch (InterruptedException e) {
            failed(CANCELLED, false);
            throw e;
        }
    }

    /** {@link #await} that does not block. */
    public CompletableFuture<Boolean> later(long remainingNanos) {
        return Waits.later(scope.process(), call.fault, remainingNanos).thenApplyAsync(this::waited);
    }

    private boolean waited(boolean inTime) {
        if (inTime && kind == Kind.DELAY) {
            return true;
        }
        failed(DEADLINE_EXCEEDED, false);
        return false;
    }

    /** Records what a fault made of a request that is not sent. */
    public void recordRefused() {
        if (kind == Kind.STATUS) {
            synchronized (this) {
                if (!over) {
                    over = true;
                    scope.reply(scope.now(), call.number, call.fault.arg, null, false);
                }
            }
        } else {
            failed(kind == Kind.DEADLINE ? DEADLINE_EXCEEDED : UNAVAILABLE, false);
        }
    }

    /**
     * A reply has begun. True: its history comes behind the body, so {@link #ended} has to follow; else the end is recorded.
     */
    public boolean replied(int status, Headers reply) {
        String carried = reply.get(Envelope.HISTORY_HEADER);
        String encoding = reply.get("content-encoding");
        synchronized (this) {
            this.status = status;
            if (carried != null) {
                byte[] found = Text.unbase64(carried);
                history = found == null ? Bytes.NONE : found;
            }
        }
        boolean tail = "tail".equals(reply.get(Envelope.REPLY_HEADER)) && (encoding == null || encoding.trim().equalsIgnoreCase("identity"));
        if (tail) {
            scope.begun(call.number, status);
        } else {
            ended(null);
        }
        return tail;
    }

    /** The body has ended, with this history behind it, or none. */
    public synchronized void ended(byte[] tail) {
        if (over) {
            return;
        }
        over = true;
        byte[] found = tail != null ? tail : history;
        if (kind == Kind.LOST_REPLY) {
            scope.failed(scope.now(), call.number, UNAVAILABLE, found, found == null);
        } else {
            scope.reply(scope.now(), call.number, status, found, found == null);
        }
    }

    /** {@link #ended} if the window already holds this call's whole tail: what the program does next may depend on it. */
    public void look(Window window) {
        byte[] found = window.early(call.id);
        if (found != null) {
            ended(found);
        }
    }

    /** The request failed on this side. */
    public void failed(Throwable error) {
        failed(code(error), true);
    }

    private synchronized void failed(int code, boolean gap) {
        if (!over) {
            over = true;
            scope.failed(scope.now(), call.number, code, null, gap);
        }
    }

    /** The gRPC code of a call that ended without a reply: refused, reset 14, timeout 4, cancelled 1, else 2. */
    static int code(Throwable error) {
        for (int depth = 0; error != null && depth < 8; depth++, error = error.getCause()) {
            if (error instanceof SocketTimeoutException || named(error, "HttpTimeoutException") || isTimeout(error)) {
                return DEADLINE_EXCEEDED;
            }
            if (error instanceof CancellationException || error instanceof InterruptedException
                    || "Canceled".equals(error.getMessage())) {
                return CANCELLED;
            }
            if (error instanceof ConnectException || error instanceof SocketException || error instanceof EOFException
                    || disconnected(error)) {
                return UNAVAILABLE;
            }
        }
        return UNKNOWN;
    }

    /** By name: the class lies where we cannot name it. */
    private static boolean named(Throwable error, String name) {
        for (Class<?> type = error.getClass(); type != null; type = type.getSuperclass()) {
            if (type.getSimpleName().equals(name)) {
                return true;
            }
        }
        return false;
    }

    private static boolean isTimeout(Throwable error) {
        return error instanceof java.io.InterruptedIOException && "timeout".equals(error.getMessage());
    }

    private static boolean disconnected(Throwable error) {
        String text = error.getMessage() == null || !(error instanceof IOException) ? "" : error.getMessage().toLowerCase(Locale.ROOT);
        return text.contains("connection reset") || text.contains("header parser received no bytes") || text.contains("eof reached")
                || text.contains("unexpected end of stream") || text.contains("closed");
    }

    /** Whether a header is one of ours, which the application is not to see. */
    public static boolean ours(String header) {
        return header != null && header.length() >= Envelope.REPLY_HEADER.length() && header.regionMatches(true, 0, "x-faultloom-", 0, 12)
                && (header.equalsIgnoreCase(Envelope.HISTORY_HEADER) || header.equalsIgnoreCase(Envelope.REPLY_HEADER));
    }
}

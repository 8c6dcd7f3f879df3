package dev.faultloom.hooks.http;

import dev.faultloom.hooks.faults.CallEnd;
import dev.faultloom.hooks.faults.CallResult;
import dev.faultloom.hooks.faults.FaultEffect;
import dev.faultloom.hooks.faults.Faults;
import dev.faultloom.hooks.faults.Protocol;
import dev.faultloom.scope.FaultDelay;
import dev.faultloom.scope.OutgoingCall;
import dev.faultloom.scope.Scope;
import dev.faultloom.scope.ScopeContext;
import dev.faultloom.scope.UnscopedCalls;
import dev.faultloom.wire.Bytes;
import dev.faultloom.wire.Bridge;
import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.GrpcCode;
import dev.faultloom.wire.Headers;
import dev.faultloom.wire.Text;
import java.io.EOFException;
import java.io.IOException;
import java.net.ConnectException;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.util.Locale;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;

/** One HTTP request of a scope, from the fault decision until its end is recorded. Safe for concurrent use. */
public final class HttpCall {
    private final Scope scope;
    private final ScopeContext context;
    private final OutgoingCall call;
    /** What a fault does to this call. */
    public final FaultEffect effect;
    private int status;
    private byte[] history;
    private boolean isRecorded; // the end of the call

    private HttpCall(Scope scope, ScopeContext context, OutgoingCall call, FaultEffect effect) {
        this.scope = scope;
        this.context = context;
        this.call = call;
        this.effect = effect;
    }

    /**
     * Begins a call in this context. Null if the request must be sent unchanged, because it belongs to no scope; it is
     * counted if it belongs to no request.
     *
     * @param context of the thread that sends it, or null
     * @param tail whether a tail can be removed from the reply's body, see {@link #canRemoveTail}
     * @param timeoutNanos how long the caller waits at most; Long.MAX_VALUE: no limit
     */
    public static HttpCall begin(
            ScopeContext context, String scheme, String host, int port, String method, String target, boolean tail, long timeoutNanos) {
        return begin(context, () -> authority(scheme, host, port), method, target, tail, timeoutNanos);
    }

    /** {@link #begin} for an address whose host may be no valid host name. */
    public static HttpCall begin(ScopeContext context, URI uri, String method, boolean tail, long timeoutNanos) {
        return begin(context, () -> authority(uri), method, uri.getRawPath() == null ? "" : uri.getRawPath(), tail, timeoutNanos);
    }

    private static HttpCall begin(
            ScopeContext context, Supplier<String> authority, String method, String target, boolean tail, long timeoutNanos) {
        try {
            Scope scope = context == null ? null : context.scope();
            if (scope == null) {
                if (UnscopedCalls.counts(context)) {
                    UnscopedCalls.addHttp(authority.get(), method, target);
                }
                return null;
            }
            OutgoingCall call = scope.beginHttpCall(context.isInherited(), authority.get(), method, target, tail);
            if (call == null) {
                return null;
            }
            FaultEffect effect = Faults.faultEffect(Protocol.HTTP, call.fault, Faults.timeoutMs(timeoutNanos));
            return new HttpCall(scope, context, call, effect);
        } catch (RuntimeException e) {
            return null; // an error of ours must not prevent the request
        }
    }

    /** {@code host:port}, with the scheme's default port if none is given. */
    public static String authority(String scheme, String host, int port) {
        int actualPort = port > 0 ? port : "https".equalsIgnoreCase(scheme) ? 443 : 80;
        return (host.indexOf(':') >= 0 && !host.startsWith("[") ? "[" + host + "]" : host) + ":" + actualPort;
    }

    /**
     * {@link #authority(String, String, int)}; of a host that is no valid host name, such as one with an underscore, as
     * it is written.
     */
    public static String authority(URI uri) {
        if (uri.getHost() != null) {
            return authority(uri.getScheme(), uri.getHost(), uri.getPort());
        }
        String written = uri.getRawAuthority() == null ? "" : uri.getRawAuthority();
        String address = written.substring(written.lastIndexOf('@') + 1);
        return address.matches(".*:[0-9]{1,5}") ? address : authority(uri.getScheme(), address, -1);
    }

    /** Whether a tail can be removed from the reply to this request: the body must arrive as the callee wrote it. */
    public static boolean canRemoveTail(String method, Headers request) {
        String encodings = request.get("accept-encoding");
        return !method.equals("HEAD") && request.get("range") == null && request.get("upgrade") == null
                && (encodings == null || encodings.trim().equalsIgnoreCase("identity"));
    }

    /** The context of the thread that sent it, for callbacks. */
    public ScopeContext context() {
        return context;
    }

    /** The value of the request header {@code x-faultloom}, or null: no header. */
    public String header() {
        return call.header();
    }

    /** Whether the request also carries {@code traceparent} and {@code baggage}. */
    public boolean isBridged() {
        return call.isBridged();
    }

    /** {@link OutgoingCall#injectBridge}. */
    public Bridge injectBridge(String traceparent, String baggage) {
        return call.injectBridge(traceparent, baggage);
    }

    /** The status that a status fault returns to the caller. */
    public int faultStatus() {
        return (int) effect.end.status;
    }

    /**
     * Blocks while a fault delays the call.
     *
     * @return whether the request is sent now; false: {@link #recordUnsent} must follow
     */
    public boolean waitForFault() throws InterruptedException {
        if (!effect.waits()) {
            return effect.sends;
        }
        try {
            return effect.sendsAfterWait(FaultDelay.waitForFault(scope.process(), effect.waitMs));
        } catch (InterruptedException e) {
            recordFailure(GrpcCode.CANCELED, false);
            throw e;
        }
    }

    /** {@link #waitForFault} without blocking. */
    public CompletableFuture<Boolean> waitForFaultAsync() {
        // asynchronously: continuations must not run on the timer thread
        return FaultDelay.waitForFaultAsync(scope.process(), effect.waitMs).thenApplyAsync(effect::sendsAfterWait);
    }

    /** Records the end of a request that is not sent. */
    public void recordUnsent() {
        record(effect.end, null);
    }

    /**
     * Processes the headers of a reply.
     *
     * @return true: the history follows the body, so {@link #recordReply} must follow; false: the end of the call is
     *     recorded
     */
    public boolean replyStarted(int status, Headers reply) {
        String header = Carrier.lastValue(reply.get(Envelope.HISTORY_HEADER));
        String encoding = reply.get("content-encoding");
        synchronized (this) {
            this.status = status;
            if (header != null) {
                byte[] decoded = Text.decodeBase64(header);
                history = decoded == null ? Bytes.NONE : decoded;
            }
        }
        boolean tail = "tail".equals(Carrier.lastValue(reply.get(Envelope.REPLY_HEADER))) && Carrier.mayHaveTail(status)
                && (encoding == null || encoding.trim().equalsIgnoreCase("identity"));
        if (tail) {
            scope.replyStarted(call.number, status);
        } else {
            recordReply(null);
        }
        return tail;
    }

    /** Sets how long the call spent on a connection of its own, in µs. Before its end is recorded. */
    public void setConnectTime(long us) {
        scope.setConnectTime(call.number, us);
    }

    /** Records that the body has ended. {@code tail}: the history that followed the body, or null. */
    public synchronized void recordReply(byte[] tail) {
        byte[] found = tail != null ? tail : history;
        record(Faults.replyEffect(Protocol.HTTP, call.fault, CallResult.reply(status, found != null)), found);
    }

    /**
     * Records the reply as soon as the window holds the complete tail of this call: the application's next call may
     * depend on the history. Returns whether the tail is complete.
     */
    public boolean recordIfComplete(TailWindow window) {
        Carrier.Cut tail = window.completeTail(call.id);
        if (tail != null && !isRecorded()) {
            recordReply(window.history(tail));
        }
        return tail != null;
    }

    private synchronized boolean isRecorded() {
        return isRecorded;
    }

    /** Records that the request failed on this side. */
    public void recordFailure(Throwable error) {
        recordFailure(failureCode(error), true);
    }

    private synchronized void recordFailure(int code, boolean gap) {
        if (!isRecorded) {
            isRecorded = true;
            scope.recordFailure(scope.now(), call.number, code, null, gap);
        }
    }

    private synchronized void record(CallEnd end, byte[] history) {
        if (isRecorded) {
            return;
        }
        isRecorded = true;
        end.record(scope, call.number, history);
    }

    /** The gRPC code of a call that ended without a reply: refused or reset 14, timeout 4, canceled 1, else 2. */
    static int failureCode(Throwable error) {
        for (int depth = 0; error != null && depth < 8; depth++, error = error.getCause()) {
            if (error instanceof SocketTimeoutException || hasTypeName(error, "HttpTimeoutException")
                    || hasTypeName(error, "ReadTimeoutException") || isTimeout(error)) {
                return GrpcCode.DEADLINE_EXCEEDED;
            }
            if (error instanceof CancellationException || error instanceof InterruptedException
                    || "Canceled".equals(error.getMessage())) {
                return GrpcCode.CANCELED;
            }
            if (error instanceof ConnectException || error instanceof SocketException || error instanceof EOFException
                    || isDisconnect(error)) {
                return GrpcCode.UNAVAILABLE;
            }
        }
        return GrpcCode.UNKNOWN;
    }

    /** Compares names, because the module of the class is not visible here. */
    private static boolean hasTypeName(Throwable error, String name) {
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

    private static boolean isDisconnect(Throwable error) {
        if (error.getMessage() == null || !(error instanceof IOException)) {
            return false;
        }
        String text = error.getMessage().toLowerCase(Locale.ROOT);
        return text.contains("connection reset") || text.contains("header parser received no bytes") || text.contains("eof reached")
                || text.contains("unexpected end of stream") || text.contains("closed");
    }

    /** Whether this is one of our reply headers, which are hidden from the application. */
    public static boolean isOurHeader(String header) {
        return header != null && header.length() >= Envelope.REPLY_HEADER.length() && header.regionMatches(true, 0, "x-faultloom-", 0, 12)
                && (header.equalsIgnoreCase(Envelope.HISTORY_HEADER) || header.equalsIgnoreCase(Envelope.REPLY_HEADER));
    }
}

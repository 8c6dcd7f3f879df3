package dev.faultloom.hooks.okhttp;

import dev.faultloom.hooks.http.HttpCall;
import dev.faultloom.hooks.http.TailInputStream;
import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Bridge;
import dev.faultloom.wire.Envelope;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.net.ConnectException;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import okhttp3.HttpUrl;
import okhttp3.Interceptor;
import okhttp3.Protocol;
import okhttp3.Request;
import okhttp3.Response;
import okhttp3.ResponseBody;
import okio.Okio;

/** OkHttp: the innermost of a client's interceptors; the library's retries and redirects happen below it. */
public final class OkHttpHook implements Interceptor {
    public static final OkHttpHook INSTANCE = new OkHttpHook();

    private OkHttpHook() {}

    @Override
    public Response intercept(Chain chain) throws IOException {
        Request request = chain.request();
        if (!Scope.anyUnfinished() || request.header("Upgrade") != null) {
            return chain.proceed(request);
        }
        HttpUrl url = request.url();
        boolean tail = HttpCall.canRemoveTail(request.method(), request::header);
        HttpCall call = HttpCall.begin(
                CurrentScope.context(), url.scheme(), url.host(), url.port(), request.method(), url.encodedPath(), tail, timeoutNanos(chain));
        if (call == null) {
            return chain.proceed(request);
        }
        if (!waitForFault(call)) {
            call.recordUnsent();
            return endUnsent(call, request);
        }
        ConnectTimer timer = ConnectTimer.of(chain.call());
        Response response;
        try {
            response = chain.proceed(withOurHeaders(request, call));
        } catch (IOException | RuntimeException e) {
            call.setConnectTime(timer == null ? 0 : timer.usAtFailure());
            call.recordFailure(e);
            throw e;
        }
        call.setConnectTime(timer == null ? 0 : timer.us());
        return receive(response, request, call, chain.call()::cancel);
    }

    private static long timeoutNanos(Chain chain) {
        long read = TimeUnit.MILLISECONDS.toNanos(chain.readTimeoutMillis());
        long whole = chain.call().timeout().timeoutNanos();
        return Math.min(read == 0 ? Long.MAX_VALUE : read, whole == 0 ? Long.MAX_VALUE : whole);
    }

    private static boolean waitForFault(HttpCall call) throws IOException {
        try {
            return call.waitForFault();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted");
        }
    }

    /** Ends a request that a fault does not send. */
    private static Response endUnsent(HttpCall call, Request request) throws IOException {
        switch (call.effect.end.outcome) {
            case REFUSED:
                throw new ConnectException("Failed to connect to " + request.url().host() + ":" + request.url().port());
            case RESET:
                throw new SocketException("Connection reset");
            case STATUS:
                return new Response.Builder().request(request).protocol(Protocol.HTTP_1_1).code(call.faultStatus()).message("")
                        .header("Content-Length", "0").body(body(null, InputStream.nullInputStream(), 0)).build();
            default:
                throw new SocketTimeoutException("timeout");
        }
    }

    private static Request withOurHeaders(Request request, HttpCall call) {
        // removes an envelope that the application forwarded
        Request.Builder builder = request.newBuilder().removeHeader(Envelope.HTTP_HEADER);
        if (call.header() != null) {
            builder.header(Envelope.HTTP_HEADER, call.header());
        }
        if (call.isBridged()) {
            List<String> baggage = request.headers(Bridge.BAGGAGE);
            Bridge bridge = call.injectBridge(
                    request.header(Bridge.TRACEPARENT), baggage.isEmpty() ? null : String.join(",", baggage));
            builder.header(Bridge.TRACEPARENT, bridge.traceparent).removeHeader(Bridge.BAGGAGE);
            if (bridge.baggage != null) {
                builder.header(Bridge.BAGGAGE, bridge.baggage);
            }
        }
        return builder.build();
    }

    /** The response for the application. */
    private static Response receive(Response response, Request request, HttpCall call, Runnable cancel) throws IOException {
        boolean tail = call.replyStarted(response.code(), response::header);
        Response.Builder builder = response.newBuilder().request(request)
                .removeHeader(Envelope.HISTORY_HEADER).removeHeader(Envelope.REPLY_HEADER);
        ResponseBody body = response.body();
        if (body == null || !TailInputStream.isNeeded(tail, call)) {
            return builder.build();
        }
        InputStream stream = TailInputStream.of(body.byteStream(), tail, call);
        if (call.effect.losesReply()) {
            throw new SocketException("Connection reset");
        }
        long length = TailInputStream.lengthOf(stream, body.contentLength(), cancel);
        builder.removeHeader("Content-Length");
        if (length >= 0) {
            builder.header("Content-Length", Long.toString(length));
        }
        return builder.body(body(body, stream, length)).build();
    }

    @SuppressWarnings("deprecation") // the only form that exists in versions 3, 4 and 5
    private static ResponseBody body(ResponseBody original, InputStream stream, long length) {
        return ResponseBody.create(original == null ? null : original.contentType(), length, Okio.buffer(Okio.source(stream)));
    }
}

package dev.faultloom.hooks.okhttp;

import dev.faultloom.http.HttpCall;
import dev.faultloom.http.TailStream;
import dev.faultloom.scope.Current;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Bridge;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Kind;
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

/** OkHttp: the innermost of a client's interceptors; the library's own retries and redirects lie below it. */
public final class OkHttpHook implements Interceptor {
    public static final OkHttpHook INSTANCE = new OkHttpHook();
    /** A reply of at most this length is read at once when it announces a tail. */
    private static final int MAX_EAGER = 256 << 10;

    private OkHttpHook() {}

    @Override
    public Response intercept(Chain chain) throws IOException {
        Scope scope = Current.get();
        Request request = chain.request();
        if (scope == null || request.header("Upgrade") != null) {
            return chain.proceed(request);
        }
        HttpUrl url = request.url();
        HttpCall call = HttpCall.begin(scope, url.scheme(), url.host(), url.port(), request.method(), url.encodedPath(),
                HttpCall.tailPossible(request.method(), request::header));
        if (call == null) {
            return chain.proceed(request);
        }
        if (call.refused()) {
            call.recordRefused();
            return refused(call, request);
        }
        if (call.waits()) {
            await(call, chain);
        }
        Response response;
        try {
            response = chain.proceed(traced(request, call));
        } catch (IOException | RuntimeException e) {
            call.failed(e);
            throw e;
        }
        return seen(response, request, call);
    }

    private static Response refused(HttpCall call, Request request) throws IOException {
        switch (call.kind) {
            case UNAVAILABLE:
                throw new ConnectException("Failed to connect to " + request.url().host() + ":" + request.url().port());
            case RESET:
                throw new SocketException("Connection reset");
            case DEADLINE:
                throw new SocketTimeoutException("timeout");
            default:
                return new Response.Builder().request(request).protocol(Protocol.HTTP_1_1).code(call.faultStatus()).message("")
                        .header("Content-Length", "0").body(body(null, InputStream.nullInputStream(), 0)).build();
        }
    }

    private static void await(HttpCall call, Chain chain) throws IOException {
        long read = TimeUnit.MILLISECONDS.toNanos(chain.readTimeoutMillis());
        long whole = chain.call().timeout().timeoutNanos();
        try {
            if (!call.await(Math.min(read == 0 ? Long.MAX_VALUE : read, whole == 0 ? Long.MAX_VALUE : whole))) {
                throw new SocketTimeoutException("timeout");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted");
        }
    }

    private static Request traced(Request request, HttpCall call) {
        Request.Builder builder = request.newBuilder().removeHeader(Envelope.HTTP_HEADER); // one that the application passed on
        if (call.header() != null) {
            builder.header(Envelope.HTTP_HEADER, call.header());
        }
        if (call.bridged()) {
            builder.header(Bridge.TRACEPARENT, call.traceparent(request.header(Bridge.TRACEPARENT)));
            List<String> present = request.headers(Bridge.BAGGAGE);
            String baggage = call.baggage(present.isEmpty() ? null : String.join(",", present));
            builder.removeHeader(Bridge.BAGGAGE);
            if (baggage != null) {
                builder.header(Bridge.BAGGAGE, baggage);
            }
        }
        return builder.build();
    }

    /** The response as the application gets to see it. */
    private static Response seen(Response response, Request request, HttpCall call) throws IOException {
        boolean tail = call.replied(response.code(), response::header);
        Response.Builder builder = response.newBuilder().request(request).removeHeader(Envelope.HISTORY_HEADER).removeHeader(Envelope.REPLY_HEADER);
        ResponseBody body = response.body();
        if (body == null || (!tail && !call.changesBody() && call.kind != Kind.LOST_REPLY)) {
            return builder.build();
        }
        long known = body.contentLength();
        InputStream stream = TailStream.of(body.byteStream(), tail, call);
        if (call.kind == Kind.LOST_REPLY) {
            throw new SocketException("Connection reset");
        }
        long length = -1;
        if (stream instanceof TailStream && known >= 0 && known <= MAX_EAGER) {
            // a length means that the callee had finished: everything is on its way, and what the program does next may depend on it
            ((TailStream) stream).prefetch();
            length = ((TailStream) stream).length();
        } else if (!(stream instanceof TailStream)) {
            length = stream.available(); // changed by a fault, all of it here
        }
        builder.removeHeader("Content-Length");
        if (length >= 0) {
            builder.header("Content-Length", Long.toString(length));
        }
        return builder.body(body(body, stream, length)).build();
    }

    @SuppressWarnings("deprecation") // the only form that versions 3, 4 and 5 have in common
    private static ResponseBody body(ResponseBody of, InputStream stream, long length) {
        return ResponseBody.create(of == null ? null : of.contentType(), length, Okio.buffer(Okio.source(stream)));
    }
}

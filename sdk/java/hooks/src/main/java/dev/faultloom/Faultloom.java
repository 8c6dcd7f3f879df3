package dev.faultloom;

import dev.faultloom.entry.ThisProcess;
import dev.faultloom.hooks.grpc.ClientHook;
import dev.faultloom.hooks.grpc.ServerHook;
import dev.faultloom.hooks.jdkhttp.TracedClient;
import dev.faultloom.hooks.okhttp.OkHttpHook;
import io.grpc.ClientInterceptor;
import io.grpc.ServerInterceptor;
import java.net.http.HttpClient;
import okhttp3.Interceptor;

/**
 * The SDK without the agent: one line per server or client. With the agent these lines have no further effect. The
 * thread and {@code io.grpc.Context} propagate scopes; wrap tasks for executors with {@link
 * dev.faultloom.scope.CurrentScope#wrap(Runnable)}.
 */
public final class Faultloom {
    // Each method casts from Object. Otherwise the JVM would load the types of all libraries to verify this class, and
    // an application has only some of them.

    private Faultloom() {}

    /**
     * For {@code ServerBuilder.intercept}. Add it last, so that it is the outermost. For servers with the default
     * receive limit.
     */
    public static ServerInterceptor serverInterceptor() {
        return serverInterceptor(ServerHook.DEFAULT_RECEIVE_LIMIT);
    }

    /** {@link #serverInterceptor()} for a server with another {@code maxInboundMessageSize}, in bytes. */
    public static ServerInterceptor serverInterceptor(int maxInboundMessageSize) {
        return (ServerInterceptor) (Object) new ServerHook(ThisProcess.get(), maxInboundMessageSize, false);
    }

    /** For {@code ManagedChannelBuilder.intercept}. Add it first. For channels with the default receive limit. */
    public static ClientInterceptor clientInterceptor() {
        return clientInterceptor(ClientHook.DEFAULT_RECEIVE_LIMIT);
    }

    /** {@link #clientInterceptor()} for a channel with another {@code maxInboundMessageSize}, in bytes. */
    public static ClientInterceptor clientInterceptor(int maxInboundMessageSize) {
        return (ClientInterceptor) (Object) new ClientHook(maxInboundMessageSize);
    }

    /** For {@code OkHttpClient.Builder.addInterceptor}. Add it last. */
    public static Interceptor okHttpInterceptor() {
        return (Interceptor) (Object) OkHttpHook.INSTANCE;
    }

    /** A client of {@code java.net.http} that traces its requests. */
    public static HttpClient trace(HttpClient client) {
        return new TracedClient(client);
    }

    /** The first filter of a {@code jakarta.servlet} container; enable asynchronous support for it. */
    public static jakarta.servlet.Filter jakartaFilter() {
        return (jakarta.servlet.Filter) (Object) new dev.faultloom.hooks.jakarta.ServletHook();
    }

    /** {@link #jakartaFilter} for {@code javax.servlet}. */
    public static javax.servlet.Filter javaxFilter() {
        return (javax.servlet.Filter) (Object) new dev.faultloom.hooks.javax.ServletHook();
    }
}

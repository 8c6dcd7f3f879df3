package dev.faultloom;

import dev.faultloom.hooks.grpc.ClientHook;
import dev.faultloom.hooks.grpc.ServerHook;
import dev.faultloom.hooks.jdkhttp.TracedClient;
import dev.faultloom.hooks.okhttp.OkHttpHook;
import dev.faultloom.scope.Process;
import io.grpc.ClientInterceptor;
import io.grpc.ServerInterceptor;
import java.net.http.HttpClient;
import okhttp3.Interceptor;

/**
 * The SDK without the agent, for builds in which an agent has no place: one line per server or client. Beside the agent
 * these lines do nothing twice. Scopes go along with {@code io.grpc.Context} and the thread; work handed to executors takes
 * {@link dev.faultloom.scope.Current#wrap(Runnable)}.
 */
public final class Faultloom {
    // Each method casts from Object: else the JVM would load the types of every library here to verify this class, and an
    // application has only some of them.

    private Faultloom() {}

    /** For {@code ServerBuilder.intercept}, as the last one added: it has to be the outermost; of a server with the library's own receive limit. */
    public static ServerInterceptor serverInterceptor() {
        return serverInterceptor(ServerHook.DEFAULT_RECEIVE_LIMIT);
    }

    /** {@link #serverInterceptor()} for a server with another {@code maxInboundMessageSize}, in bytes. */
    public static ServerInterceptor serverInterceptor(int maxInboundMessageSize) {
        return (ServerInterceptor) (Object) new ServerHook(Process.current(), maxInboundMessageSize, false);
    }

    /** For {@code ManagedChannelBuilder.intercept}, as the first one added, of a channel with the library's own receive limit. */
    public static ClientInterceptor clientInterceptor() {
        return clientInterceptor(ClientHook.DEFAULT_RECEIVE_LIMIT);
    }

    /** {@link #clientInterceptor()} for a channel with another {@code maxInboundMessageSize}, in bytes. */
    public static ClientInterceptor clientInterceptor(int maxInboundMessageSize) {
        return (ClientInterceptor) (Object) new ClientHook(maxInboundMessageSize);
    }

    /** For {@code OkHttpClient.Builder.addInterceptor}, as the last one added. */
    public static Interceptor okHttpInterceptor() {
        return (Interceptor) (Object) OkHttpHook.INSTANCE;
    }

    /** A client of {@code java.net.http} whose requests belong to their scopes. */
    public static HttpClient trace(HttpClient client) {
        return new TracedClient(client);
    }

    /** The first filter of a container with {@code jakarta.servlet}; it has to support asynchronous requests. */
    public static jakarta.servlet.Filter jakartaFilter() {
        return (jakarta.servlet.Filter) (Object) new dev.faultloom.hooks.jakarta.ServletHook();
    }

    /** {@link #jakartaFilter} for {@code javax.servlet}. */
    public static javax.servlet.Filter javaxFilter() {
        return (javax.servlet.Filter) (Object) new dev.faultloom.hooks.javax.ServletHook();
    }
}

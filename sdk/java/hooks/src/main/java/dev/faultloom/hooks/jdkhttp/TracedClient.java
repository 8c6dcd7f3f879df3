package dev.faultloom.hooks.jdkhttp;

import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.Scope;
import java.io.IOException;
import java.net.Authenticator;
import java.net.CookieHandler;
import java.net.ProxySelector;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandler;
import java.net.http.HttpResponse.PushPromiseHandler;
import java.net.http.WebSocket;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;

/** A client that traces its requests, without the agent. */
public final class TracedClient extends HttpClient {
    /** The agent's hook counts and traces the same requests. */
    private static final boolean HAS_AGENT = System.getProperty("dev.faultloom.agent.loaded") != null;

    private final HttpClient client;

    public TracedClient(HttpClient client) {
        this.client = client;
    }

    /** Null: the request belongs to no scope, or the agent's hook below handles it. */
    private <T> CompletableFuture<HttpResponse<T>> trySend(
            HttpRequest request, BodyHandler<T> handler, PushPromiseHandler<T> push) {
        return HAS_AGENT || !Scope.anyUnfinished() ? null : JdkClientHooks.send(CurrentScope.context(), client, request, handler, push);
    }

    @Override
    public <T> HttpResponse<T> send(HttpRequest request, BodyHandler<T> handler) throws IOException, InterruptedException {
        CompletableFuture<HttpResponse<T>> sent = trySend(request, handler, null);
        if (sent == null) {
            return client.send(request, handler);
        }
        try {
            return sent.get();
        } catch (InterruptedException e) {
            sent.cancel(true);
            throw e;
        } catch (ExecutionException e) {
            Throwable cause = e.getCause();
            if (cause instanceof IOException) {
                throw (IOException) cause;
            }
            if (cause instanceof RuntimeException) {
                throw (RuntimeException) cause;
            }
            throw new IOException(cause.getMessage(), cause);
        }
    }

    @Override
    public <T> CompletableFuture<HttpResponse<T>> sendAsync(HttpRequest request, BodyHandler<T> handler) {
        return sendAsync(request, handler, null);
    }

    @Override
    public <T> CompletableFuture<HttpResponse<T>> sendAsync(HttpRequest request, BodyHandler<T> handler, PushPromiseHandler<T> push) {
        CompletableFuture<HttpResponse<T>> sent = trySend(request, handler, push);
        return sent == null ? client.sendAsync(request, handler, push) : sent;
    }

    @Override
    public Optional<CookieHandler> cookieHandler() {
        return client.cookieHandler();
    }

    @Override
    public Optional<Duration> connectTimeout() {
        return client.connectTimeout();
    }

    @Override
    public Redirect followRedirects() {
        return client.followRedirects();
    }

    @Override
    public Optional<ProxySelector> proxy() {
        return client.proxy();
    }

    @Override
    public SSLContext sslContext() {
        return client.sslContext();
    }

    @Override
    public SSLParameters sslParameters() {
        return client.sslParameters();
    }

    @Override
    public Optional<Authenticator> authenticator() {
        return client.authenticator();
    }

    @Override
    public Version version() {
        return client.version();
    }

    @Override
    public Optional<Executor> executor() {
        return client.executor();
    }

    @Override
    public WebSocket.Builder newWebSocketBuilder() {
        return client.newWebSocketBuilder();
    }
}

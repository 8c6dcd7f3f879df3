package dev.faultloom.hooks.okhttp;

import dev.faultloom.scope.Scope;
import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.util.List;
import okhttp3.Call;
import okhttp3.Connection;
import okhttp3.EventListener;
import okhttp3.Handshake;
import okhttp3.HttpUrl;
import okhttp3.Protocol;
import okhttp3.Request;
import okhttp3.Response;

/** Passes all events of a call on to the application's listener, and measures how long connections take. */
final class ConnectListener extends EventListener {
    private static final boolean COVERS_ALL_EVENTS = coversAll();

    private final ConnectTimer timer;
    private final EventListener application;

    private ConnectListener(ConnectTimer timer, EventListener application) {
        this.timer = timer;
        this.application = application;
    }

    /** Creates the listeners of a client's calls. */
    static final class Factory implements EventListener.Factory {
        private final EventListener.Factory application;

        Factory(EventListener.Factory application) {
            this.application = application;
        }

        @Override
        public EventListener create(Call call) {
            EventListener listener = application.create(call);
            // a client that was built while a scope was unfinished keeps this factory
            return Scope.anyUnfinished() ? new ConnectListener(ConnectTimer.create(call), listener) : listener;
        }
    }

    /**
     * Whether this class passes on all events of the library's version. The application would lose further ones, so
     * other versions are not measured.
     */
    static boolean coversAllEvents() {
        return COVERS_ALL_EVENTS;
    }

    private static boolean coversAll() {
        try {
            for (Method event : EventListener.class.getDeclaredMethods()) {
                int modifiers = event.getModifiers();
                if (!Modifier.isStatic(modifiers) && !Modifier.isPrivate(modifiers) && !event.isSynthetic()) {
                    ConnectListener.class.getDeclaredMethod(event.getName(), event.getParameterTypes());
                }
            }
            return true;
        } catch (ReflectiveOperationException | LinkageError e) {
            return false;
        }
    }

    @Override
    public void callStart(Call call) {
        application.callStart(call);
    }

    @Override
    public void proxySelectStart(Call call, HttpUrl url) {
        application.proxySelectStart(call, url);
    }

    @Override
    public void proxySelectEnd(Call call, HttpUrl url, List<Proxy> proxies) {
        application.proxySelectEnd(call, url, proxies);
    }

    @Override
    public void dnsStart(Call call, String name) {
        timer.waits();
        application.dnsStart(call, name);
    }

    @Override
    public void dnsEnd(Call call, String name, List<InetAddress> addresses) {
        application.dnsEnd(call, name, addresses);
    }

    @Override
    public void connectStart(Call call, InetSocketAddress address, Proxy proxy) {
        timer.connects();
        application.connectStart(call, address, proxy);
    }

    @Override
    public void secureConnectStart(Call call) {
        application.secureConnectStart(call);
    }

    @Override
    public void secureConnectEnd(Call call, Handshake handshake) {
        application.secureConnectEnd(call, handshake);
    }

    @Override
    public void connectEnd(Call call, InetSocketAddress address, Proxy proxy, Protocol protocol) {
        application.connectEnd(call, address, proxy, protocol);
    }

    @Override
    public void connectFailed(Call call, InetSocketAddress address, Proxy proxy, Protocol protocol, IOException error) {
        application.connectFailed(call, address, proxy, protocol, error);
    }

    @Override
    public void connectionAcquired(Call call, Connection connection) {
        timer.connected();
        application.connectionAcquired(call, connection);
    }

    @Override
    public void connectionReleased(Call call, Connection connection) {
        application.connectionReleased(call, connection);
    }

    @Override
    public void requestHeadersStart(Call call) {
        application.requestHeadersStart(call);
    }

    @Override
    public void requestHeadersEnd(Call call, Request request) {
        application.requestHeadersEnd(call, request);
    }

    @Override
    public void requestBodyStart(Call call) {
        application.requestBodyStart(call);
    }

    @Override
    public void requestBodyEnd(Call call, long bytes) {
        application.requestBodyEnd(call, bytes);
    }

    @Override
    public void requestFailed(Call call, IOException error) {
        application.requestFailed(call, error);
    }

    @Override
    public void responseHeadersStart(Call call) {
        application.responseHeadersStart(call);
    }

    @Override
    public void responseHeadersEnd(Call call, Response response) {
        application.responseHeadersEnd(call, response);
    }

    @Override
    public void responseBodyStart(Call call) {
        application.responseBodyStart(call);
    }

    @Override
    public void responseBodyEnd(Call call, long bytes) {
        application.responseBodyEnd(call, bytes);
    }

    @Override
    public void responseFailed(Call call, IOException error) {
        application.responseFailed(call, error);
    }

    @Override
    public void callEnd(Call call) {
        application.callEnd(call);
    }

    @Override
    public void callFailed(Call call, IOException error) {
        application.callFailed(call, error);
    }

    @Override
    public void canceled(Call call) {
        application.canceled(call);
    }

    @Override
    public void satisfactionFailure(Call call, Response response) {
        application.satisfactionFailure(call, response);
    }

    @Override
    public void cacheHit(Call call, Response response) {
        application.cacheHit(call, response);
    }

    @Override
    public void cacheMiss(Call call) {
        application.cacheMiss(call);
    }

    @Override
    public void cacheConditionalHit(Call call, Response cached) {
        application.cacheConditionalHit(call, cached);
    }
}

package dev.faultloom.hooks.okhttp;

import dev.faultloom.scope.Scope;
import java.util.ArrayList;
import java.util.List;
import okhttp3.EventListener;

/** Called by the agent's advice in OkHttp. */
public final class OkHttpHooks {
    private OkHttpHooks() {}

    /** A client's interceptors, followed by ours if a scope is unfinished. */
    public static List<?> addInterceptor(List<?> interceptors) {
        if (!Scope.anyUnfinished() || interceptors.contains(OkHttpHook.INSTANCE)) {
            return interceptors;
        }
        List<Object> all = new ArrayList<>(interceptors.size() + 1);
        all.addAll(interceptors);
        all.add(OkHttpHook.INSTANCE);
        return all;
    }

    /** A client's factory of listeners, or one that also measures the time for connections if a scope is unfinished. */
    public static Object measureConnections(Object factory) {
        if (!Scope.anyUnfinished() || !(factory instanceof EventListener.Factory) || factory instanceof ConnectListener.Factory
                || !ConnectListener.coversAllEvents()) {
            return factory;
        }
        return new ConnectListener.Factory((EventListener.Factory) factory);
    }
}

package dev.faultloom.hooks.okhttp;

import dev.faultloom.scope.Scope;
import java.util.ArrayList;
import java.util.List;

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
}

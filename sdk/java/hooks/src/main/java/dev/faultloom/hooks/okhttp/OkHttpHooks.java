package dev.faultloom.hooks.okhttp;

import dev.faultloom.scope.CurrentScope;
import java.util.ArrayList;
import java.util.List;

/** Called by the agent's advice in OkHttp. */
public final class OkHttpHooks {
    private OkHttpHooks() {}

    /** A client's interceptors, followed by ours if there is a scope. */
    public static List<?> addInterceptor(List<?> interceptors) {
        if (CurrentScope.get() == null || interceptors.contains(OkHttpHook.INSTANCE)) {
            return interceptors;
        }
        List<Object> all = new ArrayList<>(interceptors.size() + 1);
        all.addAll(interceptors);
        all.add(OkHttpHook.INSTANCE);
        return all;
    }
}

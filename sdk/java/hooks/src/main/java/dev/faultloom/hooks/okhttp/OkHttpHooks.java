package dev.faultloom.hooks.okhttp;

import dev.faultloom.scope.Current;
import java.util.ArrayList;
import java.util.List;

/** What the agent puts into OkHttp. */
public final class OkHttpHooks {
    private OkHttpHooks() {}

    /** A client's interceptors, with ours behind them if there is a scope. */
    public static List<?> with(List<?> interceptors) {
        if (Current.get() == null || interceptors.contains(OkHttpHook.INSTANCE)) {
            return interceptors;
        }
        List<Object> all = new ArrayList<>(interceptors.size() + 1);
        all.addAll(interceptors);
        all.add(OkHttpHook.INSTANCE);
        return all;
    }
}

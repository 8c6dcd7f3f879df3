package dev.faultloom.agent.advice;

import dev.faultloom.hooks.okhttp.OkHttpHooks;
import java.util.List;
import net.bytebuddy.asm.Advice;

/** OkHttp asks its client for the interceptors of every call; inside a scope there is one more. */
public final class OkHttpAdvice {
    private OkHttpAdvice() {}

    @Advice.OnMethodExit(suppress = Throwable.class)
    static void exit(@Advice.Return(readOnly = false) List<?> interceptors) {
        interceptors = OkHttpHooks.with(interceptors);
    }
}

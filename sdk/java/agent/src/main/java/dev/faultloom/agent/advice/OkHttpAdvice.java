package dev.faultloom.agent.advice;

import dev.faultloom.hooks.okhttp.OkHttpHooks;
import java.util.List;
import net.bytebuddy.asm.Advice;

/** Adds our interceptor to the list that OkHttp reads for every call. */
public final class OkHttpAdvice {
    private OkHttpAdvice() {}

    @Advice.OnMethodExit(suppress = Throwable.class)
    static void exit(@Advice.Return(readOnly = false) List<?> interceptors) {
        interceptors = OkHttpHooks.addInterceptor(interceptors);
    }
}

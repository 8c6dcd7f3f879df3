package dev.faultloom.agent.advice;

import dev.faultloom.hooks.okhttp.OkHttpHooks;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/** Wraps the factory that OkHttp reads for every call, to measure how long its connection takes. */
public final class OkHttpListenerAdvice {
    private OkHttpListenerAdvice() {}

    @Advice.OnMethodExit(suppress = Throwable.class)
    static void exit(@Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object factory) {
        factory = OkHttpHooks.measureConnections(factory);
    }
}

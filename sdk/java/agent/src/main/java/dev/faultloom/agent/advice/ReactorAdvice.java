package dev.faultloom.agent.advice;

import dev.faultloom.hooks.reactor.ReactorHooks;
import net.bytebuddy.asm.Advice;

/** Reactor's list of hooks. */
public final class ReactorAdvice {
    private ReactorAdvice() {}

    @Advice.OnMethodExit(suppress = Throwable.class)
    static void exit() {
        ReactorHooks.install();
    }
}

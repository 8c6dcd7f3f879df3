package dev.faultloom.agent.advice;

import dev.faultloom.hooks.reactor.ReactorHooks;
import dev.faultloom.hooks.reactornetty.ReactorNettyHooks;
import net.bytebuddy.asm.Advice;

/** Reactor and its HTTP client. Signatures avoid their types, which are not visible to this class. */
public final class ReactorAdvice {
    private ReactorAdvice() {}

    /** For the methods after which Reactor has no hooks of operators. */
    public static final class Operators {
        private Operators() {}

        @Advice.OnMethodExit(suppress = Throwable.class)
        static void exit() {
            ReactorHooks.install();
        }
    }

    /** For the method that sends a request. */
    public static final class Request {
        private Request() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.FieldValue("config") Object configuration, @Advice.Argument(0) Object subscriber) {
            ReactorNettyHooks.count(configuration, subscriber);
        }
    }
}

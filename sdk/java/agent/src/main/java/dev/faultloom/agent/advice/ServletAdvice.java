package dev.faultloom.agent.advice;

import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/** Filters and servlets, under both names of their interfaces, which stay out of signatures. */
public final class ServletAdvice {
    private ServletAdvice() {}

    public static final class Jakarta {
        private Jakarta() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static Object enter(@Advice.Argument(value = 0, readOnly = false, typing = Assigner.Typing.DYNAMIC) Object request,
                @Advice.Argument(value = 1, readOnly = false, typing = Assigner.Typing.DYNAMIC) Object response) {
            Object entered = dev.faultloom.hooks.jakarta.ServletHooks.enter(request, response);
            request = dev.faultloom.hooks.jakarta.ServletHooks.request(entered, request);
            response = dev.faultloom.hooks.jakarta.ServletHooks.response(entered, response);
            return entered;
        }

        @Advice.OnMethodExit(suppress = Throwable.class, onThrowable = Throwable.class)
        static void exit(@Advice.Enter Object entered, @Advice.Thrown Throwable error) throws Exception {
            dev.faultloom.hooks.jakarta.ServletHooks.exit(entered, error);
        }
    }

    public static final class Javax {
        private Javax() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static Object enter(@Advice.Argument(value = 0, readOnly = false, typing = Assigner.Typing.DYNAMIC) Object request,
                @Advice.Argument(value = 1, readOnly = false, typing = Assigner.Typing.DYNAMIC) Object response) {
            Object entered = dev.faultloom.hooks.javax.ServletHooks.enter(request, response);
            request = dev.faultloom.hooks.javax.ServletHooks.request(entered, request);
            response = dev.faultloom.hooks.javax.ServletHooks.response(entered, response);
            return entered;
        }

        @Advice.OnMethodExit(suppress = Throwable.class, onThrowable = Throwable.class)
        static void exit(@Advice.Enter Object entered, @Advice.Thrown Throwable error) throws Exception {
            dev.faultloom.hooks.javax.ServletHooks.exit(entered, error);
        }
    }
}

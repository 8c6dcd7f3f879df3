package dev.faultloom.agent.advice;

import dev.faultloom.hooks.jakarta.ServletHooks;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/**
 * Filters and servlets of {@code jakarta.servlet}. For {@code javax.servlet} the installer renames the hooks that it
 * calls. Signatures avoid the servlet types, which are not visible to this class.
 */
public final class ServletAdvice {
    private ServletAdvice() {}

    @Advice.OnMethodEnter(suppress = Throwable.class)
    static Object enter(@Advice.Argument(value = 0, readOnly = false, typing = Assigner.Typing.DYNAMIC) Object request,
            @Advice.Argument(value = 1, readOnly = false, typing = Assigner.Typing.DYNAMIC) Object response) {
        Object entered = ServletHooks.enter(request, response);
        request = ServletHooks.request(entered, request);
        response = ServletHooks.response(entered, response);
        return entered;
    }

    @Advice.OnMethodExit(suppress = Throwable.class, onThrowable = Throwable.class)
    static void exit(@Advice.Enter Object entered, @Advice.Thrown Throwable error) throws Exception {
        ServletHooks.exit(entered, error);
    }
}

package dev.faultloom.agent.advice;

import dev.faultloom.hooks.webflux.WebClientHooks;
import dev.faultloom.hooks.webflux.WebFluxHooks;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/** Spring WebFlux. Signatures avoid its types, which are not visible to this class. */
public final class WebFluxAdvice {
    private WebFluxAdvice() {}

    public static final class Server {
        private Server() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static Object enter(@Advice.Argument(0) Object request,
                @Advice.Argument(value = 1, readOnly = false, typing = Assigner.Typing.DYNAMIC) Object response) {
            Object entered = WebFluxHooks.enter(request, response);
            response = WebFluxHooks.response(entered, response);
            return entered;
        }

        @Advice.OnMethodExit(suppress = Throwable.class, onThrowable = Throwable.class)
        static void exit(@Advice.Enter Object entered, @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object result) {
            result = WebFluxHooks.exit(entered, result);
        }
    }

    public static final class Exchange {
        private Exchange() {}

        @Advice.OnMethodExit(suppress = Throwable.class)
        static void exit(@Advice.Argument(1) Object response, @Advice.Return Object exchange) {
            WebFluxHooks.exchange(exchange, response);
        }
    }

    public static final class Client {
        private Client() {}

        @Advice.OnMethodEnter(suppress = Throwable.class, skipOn = Advice.OnNonDefaultValue.class)
        static Object enter(@Advice.This Object function, @Advice.FieldValue("connector") Object connector,
                @Advice.FieldValue("strategies") Object strategies, @Advice.Argument(0) Object request) {
            return WebClientHooks.exchangeInstead(function, connector, strategies, request);
        }

        @Advice.OnMethodExit(suppress = Throwable.class)
        static void exit(@Advice.Enter Object replacement,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object result) {
            if (replacement != null) {
                result = replacement;
            }
        }
    }
}

package dev.faultloom.agent.advice;

import dev.faultloom.hooks.httpserver.ExchangeHooks;
import dev.faultloom.hooks.jdkhttp.JdkClientHooks;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/** The JDK's HTTP client and server. Signatures avoid their types, which are not visible to this class. */
public final class JdkHttpAdvice {
    private JdkHttpAdvice() {}

    public static final class Client {
        private Client() {}

        @Advice.OnMethodEnter(suppress = Throwable.class, skipOn = Advice.OnNonDefaultValue.class)
        static Object enter(@Advice.This Object client, @Advice.Argument(0) Object request, @Advice.Argument(1) Object handler,
                @Advice.Argument(2) Object push) {
            return JdkClientHooks.sendInstead(client, request, handler, push);
        }

        @Advice.OnMethodExit(suppress = Throwable.class)
        static void exit(@Advice.Enter Object replacement,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object result) {
            if (replacement != null) {
                result = replacement;
            }
        }
    }

    public static final class Server {
        private Server() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static Object enter(@Advice.Argument(value = 0, readOnly = false, typing = Assigner.Typing.DYNAMIC) Object exchange) {
            exchange = ExchangeHooks.enter(exchange);
            return ExchangeHooks.bind(exchange);
        }

        @Advice.OnMethodExit(suppress = Throwable.class, onThrowable = Throwable.class)
        static void exit(@Advice.Enter Object bound, @Advice.Argument(0) Object exchange, @Advice.Thrown Throwable error) {
            ExchangeHooks.exit(bound, exchange, error);
        }
    }
}

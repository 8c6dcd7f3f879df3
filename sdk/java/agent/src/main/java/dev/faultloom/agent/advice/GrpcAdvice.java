package dev.faultloom.agent.advice;

import dev.faultloom.hooks.grpc.GrpcHooks;
import java.util.List;
import net.bytebuddy.asm.Advice;

/**
 * Adds our interceptor in grpc-java's builders. Signatures avoid the library's types, which are not visible to this
 * class.
 */
public final class GrpcAdvice {
    private GrpcAdvice() {}

    public static final class Server {
        private Server() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.This Object builder, @Advice.FieldValue("interceptors") List<?> interceptors) {
            GrpcHooks.server(builder, interceptors);
        }
    }

    public static final class Channel {
        private Channel() {}

        @Advice.OnMethodExit(suppress = Throwable.class)
        static void exit(@Advice.This Object builder, @Advice.Return List<?> interceptors) {
            GrpcHooks.channel(builder, interceptors);
        }
    }
}

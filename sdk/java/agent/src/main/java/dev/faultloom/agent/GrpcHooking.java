package dev.faultloom.agent;

import static net.bytebuddy.matcher.ElementMatchers.declaresField;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesNoArguments;

import dev.faultloom.agent.advice.GrpcAdvice;
import net.bytebuddy.agent.builder.AgentBuilder;

/** grpc-java: every server and channel gets one interceptor more when it is built. */
final class GrpcHooking {
    private static final Library GRPC = new Library("grpc-java", "grpc", "1.38",
            loader -> Versions.constant(loader, "io.grpc.internal.GrpcUtil", "IMPLEMENTATION_VERSION"));

    private GrpcHooking() {}

    static AgentBuilder add(AgentBuilder builder, Hooking hooking) {
        return builder
                .type(named("io.grpc.internal.ServerImplBuilder"))
                .transform(hooking.advise(GRPC, named("build").and(takesNoArguments()), GrpcAdvice.Server.class))
                .type(named("io.grpc.internal.ManagedChannelImplBuilder"))
                .transform(hooking.advise(GRPC, named("getEffectiveInterceptors"), GrpcAdvice.Channel.class))
                .type(named("io.grpc.internal.AbstractServerImplBuilder").and(declaresField(named("interceptors"))))
                .transform(hooking.refuse(GRPC, "older than 1.38"));
    }
}

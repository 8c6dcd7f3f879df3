package dev.faultloom.agent;

import static net.bytebuddy.matcher.ElementMatchers.declaresField;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesNoArguments;

import dev.faultloom.agent.advice.GrpcAdvice;
import java.util.List;
import net.bytebuddy.agent.builder.AgentBuilder;

/** Installs the hooks of grpc-java: every server and channel gets our interceptor when it is built. */
final class GrpcInstaller {
    private static final Library GRPC = new Library("grpc-java", List.of("grpc"), "1.38",
            loader -> LibraryVersions.constant(loader, "io.grpc.internal.GrpcUtil", "IMPLEMENTATION_VERSION"));

    private GrpcInstaller() {}

    static AgentBuilder add(AgentBuilder builder, HookInstaller installer) {
        return builder
                .type(named("io.grpc.internal.ServerImplBuilder"))
                .transform(installer.advise(GRPC, named("build").and(takesNoArguments()), GrpcAdvice.Server.class))
                .type(named("io.grpc.internal.ManagedChannelImplBuilder"))
                .transform(installer.advise(GRPC, named("getEffectiveInterceptors"), GrpcAdvice.Channel.class))
                .type(named("io.grpc.internal.AbstractServerImplBuilder").and(declaresField(named("interceptors"))))
                .transform(installer.refuse(GRPC, "older than 1.38"));
    }
}

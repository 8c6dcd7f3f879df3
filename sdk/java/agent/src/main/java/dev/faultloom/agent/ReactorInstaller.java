package dev.faultloom.agent;

import static net.bytebuddy.matcher.ElementMatchers.isTypeInitializer;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import dev.faultloom.agent.advice.ReactorAdvice;
import java.util.List;
import net.bytebuddy.agent.builder.AgentBuilder;

/**
 * Installs the hook of Reactor's operators, as soon as Reactor can take it, and again if the application removes all;
 * and the one that counts requests of Reactor Netty.
 */
final class ReactorInstaller {
    private static final Library REACTOR = new Library("reactor-core", List.of("reactor"), "3.4",
            loader -> LibraryVersions.ofJar(loader, "reactor.core.publisher.Hooks"));

    private static final Library NETTY = new Library("reactor-netty-http", List.of("reactor", "reactornetty"), "1.0",
            loader -> LibraryVersions.ofJar(loader, "reactor.netty.http.client.HttpClient"));

    private ReactorInstaller() {}

    static AgentBuilder add(AgentBuilder builder, HookInstaller installer) {
        return builder
                .type(named("reactor.core.publisher.Hooks"))
                .transform(installer.advise(REACTOR, isTypeInitializer().or(named("resetOnEachOperator")), ReactorAdvice.Operators.class))
                .type(named("reactor.netty.http.client.HttpClientConnect$MonoHttpConnect"))
                .transform(installer.advise(NETTY, named("subscribe").and(takesArguments(1)), ReactorAdvice.Request.class));
    }
}

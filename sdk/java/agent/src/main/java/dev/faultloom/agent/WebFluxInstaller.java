package dev.faultloom.agent;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import dev.faultloom.agent.advice.WebFluxAdvice;
import java.util.List;
import net.bytebuddy.agent.builder.AgentBuilder;

/** Installs the hooks of Spring WebFlux: its servers, and its client on Reactor Netty. */
final class WebFluxInstaller {
    private static final String SERVER = "org.springframework.web.server.adapter.HttpWebHandlerAdapter";
    private static final String CLIENT = "org.springframework.web.reactive.function.client.ExchangeFunctions$DefaultExchangeFunction";
    // both libraries have the same version; one may be without the other
    private static final Library SPRING_WEB = library("spring-web", SERVER);
    private static final Library SPRING_WEBFLUX = library("spring-webflux", CLIENT);

    private WebFluxInstaller() {}

    private static Library library(String name, String type) {
        return new Library(name, List.of("reactor", "webflux"), "6.0", loader -> LibraryVersions.ofJar(loader, type));
    }

    static AgentBuilder add(AgentBuilder builder, HookInstaller installer) {
        return builder
                .type(named(SERVER))
                .transform(installer.advise(SPRING_WEB, named("handle").and(takesArguments(2)), WebFluxAdvice.Server.class))
                .transform(installer.advise(SPRING_WEB, named("createExchange").and(takesArguments(2)), WebFluxAdvice.Exchange.class))
                .type(named(CLIENT))
                .transform(installer.advise(SPRING_WEBFLUX, named("exchange").and(takesArguments(1)), WebFluxAdvice.Client.class));
    }
}

package dev.faultloom.agent;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import dev.faultloom.agent.advice.JdkHttpAdvice;
import java.util.List;
import net.bytebuddy.agent.builder.AgentBuilder;

/**
 * Installs the hooks of the JDK's HTTP client, at the method that all sends use, and of its HTTP server's filter
 * chains.
 */
final class JdkHttpInstaller {
    private static final Library CLIENT = new Library("java.net.http", List.of("jdkhttp"), null, loader -> System.getProperty("java.version"));
    private static final Library SERVER = new Library("com.sun.net.httpserver", List.of("httpserver"), null, loader -> System.getProperty("java.version"));

    private JdkHttpInstaller() {}

    static AgentBuilder add(AgentBuilder builder, HookInstaller installer) {
        return builder
                .type(named("jdk.internal.net.http.HttpClientImpl"))
                .transform(installer.advise(CLIENT, named("sendAsync").and(takesArguments(4)), JdkHttpAdvice.Client.class))
                .type(named("com.sun.net.httpserver.Filter$Chain"))
                .transform(installer.advise(SERVER, named("doFilter"), JdkHttpAdvice.Server.class));
    }
}

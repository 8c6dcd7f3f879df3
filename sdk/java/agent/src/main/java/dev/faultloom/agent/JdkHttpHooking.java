package dev.faultloom.agent;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import dev.faultloom.agent.advice.JdkHttpAdvice;
import net.bytebuddy.agent.builder.AgentBuilder;

/** The JDK's HTTP client, where synchronous and asynchronous sends have become one, and its HTTP server's filter chains. */
final class JdkHttpHooking {
    private static final Library CLIENT = new Library("java.net.http", "jdkhttp", null, loader -> System.getProperty("java.version"));
    private static final Library SERVER = new Library("com.sun.net.httpserver", "httpserver", null, loader -> System.getProperty("java.version"));

    private JdkHttpHooking() {}

    static AgentBuilder add(AgentBuilder builder, Hooking hooking) {
        return builder
                .type(named("jdk.internal.net.http.HttpClientImpl"))
                .transform(hooking.advise(CLIENT, named("sendAsync").and(takesArguments(4)), JdkHttpAdvice.Client.class))
                .type(named("com.sun.net.httpserver.Filter$Chain"))
                .transform(hooking.advise(SERVER, named("doFilter"), JdkHttpAdvice.Server.class));
    }
}

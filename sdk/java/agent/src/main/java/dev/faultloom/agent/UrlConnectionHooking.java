package dev.faultloom.agent;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesNoArguments;

import dev.faultloom.agent.advice.UrlConnectionAdvice;
import java.lang.instrument.Instrumentation;
import java.util.Map;
import java.util.Set;
import net.bytebuddy.agent.builder.AgentBuilder;

/** The JDK's {@code HttpURLConnection}; that of HTTPS does all this by one of these. */
final class UrlConnectionHooking {
    private static final Library JDK = new Library("java.net.HttpURLConnection", null, null, loader -> System.getProperty("java.version"));

    private UrlConnectionHooking() {}

    static AgentBuilder add(AgentBuilder builder, Hooking hooking, Instrumentation instrumentation) {
        Set<Module> ours = Set.of(UrlConnectionHooking.class.getModule());
        instrumentation.redefineModule(Object.class.getModule(), Set.of(), Map.of(),
                Map.of("java.net", ours, "sun.net.www", ours, "sun.net.www.protocol.http", ours), Set.of(), Map.of());
        return builder
                .type(named("sun.net.www.protocol.http.HttpURLConnection"))
                .transform(hooking.advise(JDK, named("connect").and(takesNoArguments()), UrlConnectionAdvice.Connect.class))
                .transform(hooking.advise(JDK, named("getOutputStream").and(takesNoArguments()), UrlConnectionAdvice.Output.class))
                .transform(hooking.advise(JDK, named("getInputStream").and(takesNoArguments()), UrlConnectionAdvice.Input.class))
                .transform(hooking.advise(JDK, named("getErrorStream").and(takesNoArguments()), UrlConnectionAdvice.Error.class));
    }
}

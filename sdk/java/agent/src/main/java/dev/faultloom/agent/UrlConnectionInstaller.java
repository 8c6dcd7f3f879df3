package dev.faultloom.agent;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesNoArguments;

import dev.faultloom.agent.advice.UrlConnectionAdvice;
import java.lang.instrument.Instrumentation;
import java.util.List;
import java.util.Map;
import java.util.Set;
import net.bytebuddy.agent.builder.AgentBuilder;

/** Installs the hooks of the JDK's {@code HttpURLConnection}, to which the one for HTTPS delegates. */
final class UrlConnectionInstaller {
    private static final Library JDK = new Library("java.net.HttpURLConnection", List.of(), null, loader -> System.getProperty("java.version"));

    private UrlConnectionInstaller() {}

    static AgentBuilder add(AgentBuilder builder, HookInstaller installer, Instrumentation instrumentation) {
        Set<Module> ours = Set.of(UrlConnectionInstaller.class.getModule());
        instrumentation.redefineModule(Object.class.getModule(), Set.of(), Map.of(),
                Map.of("java.net", ours, "sun.net.www", ours, "sun.net.www.protocol.http", ours), Set.of(), Map.of());
        return builder
                .type(named("sun.net.www.protocol.http.HttpURLConnection"))
                .transform(installer.advise(JDK, named("connect").and(takesNoArguments()), UrlConnectionAdvice.Connect.class))
                .transform(installer.advise(JDK, named("getOutputStream").and(takesNoArguments()), UrlConnectionAdvice.Output.class))
                .transform(installer.advise(JDK, named("getInputStream").and(takesNoArguments()), UrlConnectionAdvice.Input.class))
                .transform(installer.advise(JDK, named("getErrorStream").and(takesNoArguments()), UrlConnectionAdvice.Error.class))
                .type(named("sun.net.www.protocol.https.AbstractDelegateHttpsURLConnection")) // does not call the method above
                .transform(installer.advise(JDK, named("connect").and(takesNoArguments()), UrlConnectionAdvice.Connect.class));
    }
}

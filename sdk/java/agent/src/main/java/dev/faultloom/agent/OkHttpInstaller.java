package dev.faultloom.agent;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesNoArguments;

import dev.faultloom.agent.advice.OkHttpAdvice;
import dev.faultloom.agent.advice.OkHttpListenerAdvice;
import java.util.List;
import net.bytebuddy.agent.builder.AgentBuilder;

/** Installs the hooks of OkHttp 3.12 and newer. */
final class OkHttpInstaller {
    private static final Library OKHTTP = new Library("okhttp", List.of("okhttp"), "3.12", OkHttpInstaller::version);

    private OkHttpInstaller() {}

    private static String version(ClassLoader loader) {
        String constant = LibraryVersions.constant(loader, "okhttp3.OkHttp", "VERSION");
        return constant != null ? constant : LibraryVersions.text(loader, "okhttp3.internal.Version", "okhttp/");
    }

    static AgentBuilder add(AgentBuilder builder, HookInstaller installer) {
        return builder
                .type(named("okhttp3.OkHttpClient"))
                .transform(installer.advise(OKHTTP, named("interceptors").and(takesNoArguments()), OkHttpAdvice.class))
                .transform(installer.advise(OKHTTP, named("eventListenerFactory").and(takesNoArguments()), OkHttpListenerAdvice.class));
    }
}

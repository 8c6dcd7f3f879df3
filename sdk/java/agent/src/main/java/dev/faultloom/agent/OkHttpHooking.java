package dev.faultloom.agent;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesNoArguments;

import dev.faultloom.agent.advice.OkHttpAdvice;
import net.bytebuddy.agent.builder.AgentBuilder;

/** OkHttp 3.12 and newer. */
final class OkHttpHooking {
    private static final Library OKHTTP = new Library("okhttp", "okhttp", "3.12", OkHttpHooking::version);

    private OkHttpHooking() {}

    private static String version(ClassLoader loader) {
        String constant = Versions.constant(loader, "okhttp3.OkHttp", "VERSION");
        return constant != null ? constant : Versions.text(loader, "okhttp3.internal.Version", "okhttp/");
    }

    static AgentBuilder add(AgentBuilder builder, Hooking hooking) {
        return builder
                .type(named("okhttp3.OkHttpClient"))
                .transform(hooking.advise(OKHTTP, named("interceptors").and(takesNoArguments()), OkHttpAdvice.class));
    }
}

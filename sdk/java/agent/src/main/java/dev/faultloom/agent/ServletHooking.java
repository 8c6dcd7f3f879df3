package dev.faultloom.agent;

import static net.bytebuddy.matcher.ElementMatchers.declaresMethod;
import static net.bytebuddy.matcher.ElementMatchers.hasSuperType;
import static net.bytebuddy.matcher.ElementMatchers.isAbstract;
import static net.bytebuddy.matcher.ElementMatchers.isInterface;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.not;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import dev.faultloom.agent.advice.ServletAdvice;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;

/** Every filter and servlet: whichever a request reaches first is its way in, whatever the container. */
final class ServletHooking {
    private ServletHooking() {}

    static AgentBuilder add(AgentBuilder builder, Hooking hooking) {
        return add(add(builder, hooking, "jakarta", ServletAdvice.Jakarta.class), hooking, "javax", ServletAdvice.Javax.class);
    }

    private static AgentBuilder add(AgentBuilder builder, Hooking hooking, String name, Class<?> advice) {
        String api = name + ".servlet.";
        Library library = new Library(name + ".servlet", name, null, loader -> Versions.ofJar(loader, api + "Servlet"));
        ElementMatcher.Junction<MethodDescription> way = not(isAbstract())
                .and(takesArgument(0, named(api + "ServletRequest"))).and(takesArgument(1, named(api + "ServletResponse")));
        ElementMatcher.Junction<MethodDescription> in = way.and(named("service").and(takesArguments(2))
                .or(named("doFilter").and(takesArguments(3)).and(takesArgument(2, named(api + "FilterChain")))));
        // cheap questions first: most class loaders do not have the interfaces, most classes no such method
        return builder
                .type(not(isInterface()).and(declaresMethod(in)).and(hasSuperType(named(api + "Servlet").or(named(api + "Filter")))), has(api + "Servlet"))
                .transform(hooking.advise(library, in, advice));
    }

    private static ElementMatcher<ClassLoader> has(String type) {
        String path = type.replace('.', '/') + ".class";
        Map<ClassLoader, Boolean> known = Collections.synchronizedMap(new WeakHashMap<>());
        return loader -> loader != null && known.computeIfAbsent(loader, l -> l.getResource(path) != null);
    }
}

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
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;

/**
 * Installs the hooks of filters and servlets, in any container. The first one that a request reaches opens the scope.
 */
final class ServletInstaller {
    private ServletInstaller() {}

    static AgentBuilder add(AgentBuilder builder, HookInstaller installer) {
        return add(add(builder, installer, "jakarta"), installer, "javax");
    }

    private static AgentBuilder add(AgentBuilder builder, HookInstaller installer, String name) {
        String api = name + ".servlet.";
        Library library = new Library(name + ".servlet", List.of(name), null, loader -> LibraryVersions.ofJar(loader, api + "Servlet"));
        ElementMatcher.Junction<MethodDescription> handlesRequest = not(isAbstract())
                .and(takesArgument(0, named(api + "ServletRequest"))).and(takesArgument(1, named(api + "ServletResponse")));
        ElementMatcher.Junction<MethodDescription> entry = handlesRequest.and(named("service").and(takesArguments(2))
                .or(named("doFilter").and(takesArguments(3)).and(takesArgument(2, named(api + "FilterChain")))));
        // cheap checks first: most class loaders lack the interfaces, and most classes lack such a method
        return builder
                .type(not(isInterface()).and(declaresMethod(entry)).and(hasSuperType(named(api + "Servlet").or(named(api + "Filter")))), canLoad(api + "Servlet"))
                .transform(installer.adviseRenamed(
                        library, entry, ServletAdvice.class, "dev/faultloom/hooks/jakarta/", "dev/faultloom/hooks/" + name + "/"));
    }

    private static ElementMatcher<ClassLoader> canLoad(String type) {
        String path = type.replace('.', '/') + ".class";
        Map<ClassLoader, Boolean> results = Collections.synchronizedMap(new WeakHashMap<>());
        return loader -> loader != null && results.computeIfAbsent(loader, l -> l.getResource(path) != null);
    }
}

package dev.faultloom.agent;

import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.matcher.ElementMatcher;
import net.bytebuddy.utility.JavaModule;

/** Puts advice into a library's classes, where the library is of a version we know and our classes could be put beside it. */
final class Hooking {
    private final Injection injection;
    private final Report report;
    /** Where advice is read from: our own jar, which the system class loader has, too. */
    private final ClassFileLocator source = ClassFileLocator.ForClassLoader.ofSystemLoader();
    private final Map<ClassLoader, Map<Library, Boolean>> admitted = Collections.synchronizedMap(new WeakHashMap<>());

    Hooking(Injection injection, Report report) {
        this.injection = injection;
        this.report = report;
    }

    /** Advice on methods of a library's class. */
    AgentBuilder.Transformer advise(Library library, ElementMatcher<? super MethodDescription> method, Class<?> advice) {
        return (builder, type, loader, module, domain) ->
                admits(library, type.getName(), loader, module) ? builder.visit(Advice.to(advice, source).on(method)) : builder;
    }

    /** A class that only versions have which are not supported. */
    AgentBuilder.Transformer refuse(Library library, String reason) {
        return (builder, type, loader, module, domain) -> {
            report.refused(library, library.version(loader), reason);
            return builder;
        };
    }

    private boolean admits(Library library, String type, ClassLoader loader, JavaModule module) {
        return admitted.computeIfAbsent(loader, l -> new ConcurrentHashMap<>()).computeIfAbsent(library, l -> {
            String version = library.version(loader);
            String reason = library.refusal(version);
            if (reason == null && library.hooks != null) {
                try {
                    injection.inject(loader, library.hooks, module == null ? null : (Module) module.unwrap());
                } catch (Exception | LinkageError e) {
                    reason = "its hooks cannot be loaded: " + (e.getCause() == null ? e : e.getCause());
                }
            }
            if (reason == null) {
                report.hooked(type, library, version);
            } else {
                report.refused(library, version, reason);
            }
            return reason == null;
        });
    }
}

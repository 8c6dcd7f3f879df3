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

/** Adds advice to a library's classes if its version is supported and our hooks can be defined in its class loader. */
final class HookInstaller {
    private final ClassInjector injector;
    private final InstallReporter reporter;
    /** Finds the class files of advice, in our jar. */
    private final ClassFileLocator adviceFiles = ClassFileLocator.ForClassLoader.ofSystemLoader();
    private final Map<ClassLoader, Map<Library, Boolean>> supported = Collections.synchronizedMap(new WeakHashMap<>());

    HookInstaller(ClassInjector injector, InstallReporter reporter) {
        this.injector = injector;
        this.reporter = reporter;
    }

    /** Adds advice to methods of a library's class. */
    AgentBuilder.Transformer advise(Library library, ElementMatcher<? super MethodDescription> method, Class<?> advice) {
        return advise(library, method, advice, adviceFiles);
    }

    /**
     * {@link #advise} with advice that calls the hooks of another package: {@code from} in its class file becomes
     * {@code to}.
     */
    AgentBuilder.Transformer adviseRenamed(
            Library library, ElementMatcher<? super MethodDescription> method, Class<?> advice, String from, String to) {
        return advise(library, method, advice, new RenamedClassFiles(adviceFiles, from, to));
    }

    private AgentBuilder.Transformer advise(
            Library library, ElementMatcher<? super MethodDescription> method, Class<?> advice, ClassFileLocator files) {
        return (builder, type, loader, module, domain) ->
                isSupported(library, type.getName(), loader, module) ? builder.visit(Advice.to(advice, files).on(method)) : builder;
    }

    /** Refuses a library: only unsupported versions have the class. */
    AgentBuilder.Transformer refuse(Library library, String reason) {
        return (builder, type, loader, module, domain) -> {
            reporter.refused(library, library.version(loader), reason);
            return builder;
        };
    }

    private boolean isSupported(Library library, String type, ClassLoader loader, JavaModule module) {
        return supported.computeIfAbsent(loader, l -> new ConcurrentHashMap<>()).computeIfAbsent(library, l -> {
            String version = library.version(loader);
            String reason = library.refusal(version);
            if (reason == null) {
                try {
                    for (String hooks : library.hooks) {
                        injector.inject(loader, hooks, module == null ? null : (Module) module.unwrap());
                    }
                } catch (Exception | LinkageError e) {
                    reason = "its hooks cannot be loaded: " + (e.getCause() == null ? e : e.getCause());
                }
            }
            if (reason == null) {
                reporter.hooked(type, library, version);
            } else {
                reporter.refused(library, version, reason);
            }
            return reason == null;
        });
    }
}

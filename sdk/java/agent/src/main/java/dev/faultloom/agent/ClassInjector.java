package dev.faultloom.agent;

import java.io.IOException;
import java.io.InputStream;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.Method;
import java.security.ProtectionDomain;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.jar.JarFile;
import java.util.stream.Collectors;
import net.bytebuddy.jar.asm.ClassReader;

/**
 * Defines the hooks of a library in the library's class loader, where its classes are visible.
 *
 * <p>The hooks are in our jar under {@code hooks/}, where no class loader finds them. The instrumentation opens
 * {@code ClassLoader.defineClass} to us, so no file is written.
 */
final class ClassInjector {
    private static final String ROOT = "hooks/";

    private final Instrumentation instrumentation;
    private final JarFile jar;
    private final Method define;
    private final Map<ClassLoader, Set<String>> injected = Collections.synchronizedMap(new WeakHashMap<>());

    ClassInjector(Instrumentation instrumentation, JarFile jar) throws ReflectiveOperationException {
        this.instrumentation = instrumentation;
        this.jar = jar;
        instrumentation.redefineModule(
                Object.class.getModule(), Set.of(), Map.of(), Map.of("java.lang", Set.of(ClassInjector.class.getModule())), Set.of(), Map.of());
        define = ClassLoader.class.getDeclaredMethod(
                "defineClass", String.class, byte[].class, int.class, int.class, ProtectionDomain.class);
        define.setAccessible(true);
    }

    /**
     * Defines the classes of {@code dev.faultloom.hooks.<name>} in {@code loader}, once, and makes them readable for
     * {@code module}.
     */
    void inject(ClassLoader loader, String name, Module module) throws IOException, ReflectiveOperationException {
        if (module != null && module.isNamed()) {
            instrumentation.redefineModule(module, Set.of(loader.getUnnamedModule()), Map.of(), Map.of(), Set.of(), Map.of());
        }
        synchronized (injected.computeIfAbsent(loader, l -> ConcurrentHashMap.newKeySet())) {
            if (!injected.get(loader).add(name)) {
                return;
            }
            String folder = ROOT + "dev/faultloom/hooks/" + name + "/";
            Map<String, String> paths = jar.stream()
                    .map(entry -> entry.getName())
                    .filter(path -> path.startsWith(folder) && path.endsWith(".class"))
                    .collect(Collectors.toMap(path -> path.substring(ROOT.length(), path.length() - 6), path -> path, (a, b) -> a, TreeMap::new));
            while (!paths.isEmpty()) {
                define(loader, paths.keySet().iterator().next(), paths);
            }
        }
    }

    /** Defines a class, after those of our classes that it extends or implements. */
    private void define(ClassLoader loader, String name, Map<String, String> paths) throws IOException, ReflectiveOperationException {
        String path = paths.remove(name);
        if (path == null) {
            return;
        }
        byte[] code;
        try (InputStream in = jar.getInputStream(jar.getEntry(path))) {
            code = in.readAllBytes();
        }
        ClassReader reader = new ClassReader(code);
        define(loader, reader.getSuperName(), paths);
        for (String implemented : reader.getInterfaces()) {
            define(loader, implemented, paths);
        }
        try {
            define.invoke(loader, name.replace('/', '.'), code, 0, code.length, null);
        } catch (java.lang.reflect.InvocationTargetException e) {
            // the application contains and uses the same classes
            if (!(e.getCause() instanceof LinkageError) || !isDefined(loader, name.replace('/', '.'))) {
                throw e;
            }
        }
    }

    private static boolean isDefined(ClassLoader loader, String name) {
        try {
            return Class.forName(name, false, loader).getClassLoader() == loader;
        } catch (ClassNotFoundException | LinkageError e) {
            return false;
        }
    }
}

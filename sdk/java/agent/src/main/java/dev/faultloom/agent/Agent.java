package dev.faultloom.agent;

import dev.faultloom.entry.StatusFile;
import dev.faultloom.entry.ThisProcess;
import dev.faultloom.scope.Process;
import java.io.File;
import java.lang.instrument.Instrumentation;
import java.util.Map;
import java.util.jar.JarFile;

/**
 * The entry point for {@code -javaagent:faultloom-agent.jar}.
 *
 * <p>The agent appends its own jar to the boot class path, so that all class loaders, including the JDK's, share one
 * copy of the core, and nothing is unpacked. Only this class is loaded before that, by the system class loader. The
 * application starts even if the agent fails. Without trust settings the boot class path stays unchanged.
 */
public final class Agent {
    private static final String LOADED = "dev.faultloom.agent.loaded";

    private Agent() {}

    public static void premain(String arguments, Instrumentation instrumentation) {
        start(instrumentation);
    }

    public static void agentmain(String arguments, Instrumentation instrumentation) {
        start(instrumentation);
    }

    private static void start(Instrumentation instrumentation) {
        try {
            if (System.getProperties().putIfAbsent(LOADED, "true") != null) {
                System.err.println("faultloom: the agent is loaded already; this second one does nothing");
                return;
            }
            Map<String, String> variables = System.getenv();
            if (variables.getOrDefault("FAULTLOOM_TRUST_FILE", "").isEmpty() && variables.getOrDefault("FAULTLOOM_TRUST", "").isEmpty()) {
                // loads the core with the system class loader: the boot class path stays unchanged
                Process process = ThisProcess.get();
                StatusFile.fromEnvironment(variables, process.service(), process.receiver()::state);
                return;
            }
            File jar = new File(Agent.class.getProtectionDomain().getCodeSource().getLocation().toURI());
            instrumentation.appendToBootstrapClassLoaderSearch(new JarFile(jar));
            Class.forName("dev.faultloom.agent.Installer", true, null)
                    .getMethod("install", Instrumentation.class, File.class)
                    .invoke(null, instrumentation, jar);
        } catch (Throwable e) {
            Throwable cause = e.getCause() == null ? e : e.getCause();
            System.err.println("faultloom: the agent could not start (" + cause + "); the application runs without it");
        }
    }
}

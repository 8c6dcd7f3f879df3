package dev.faultloom.agent;

import static net.bytebuddy.matcher.ElementMatchers.nameStartsWith;

import dev.faultloom.entry.StatusFile;
import dev.faultloom.entry.ThisProcess;
import dev.faultloom.scope.Process;
import java.io.File;
import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.util.Map;
import java.util.jar.JarFile;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.dynamic.scaffold.MethodGraph;
import net.bytebuddy.dynamic.scaffold.TypeValidation;

/** Installs all hooks. Without trust settings it installs none. */
public final class Installer {
    private Installer() {}

    public static void install(Instrumentation instrumentation, File jar) throws IOException, ReflectiveOperationException {
        Map<String, String> variables = System.getenv();
        Process process = ThisProcess.get();
        StatusFile status = StatusFile.fromEnvironment(variables, process.service(), process.receiver()::state);
        if (variables.getOrDefault("FAULTLOOM_TRUST_FILE", "").isEmpty() && process.isInactive()) {
            return; // a settings file may appear later, a variable cannot
        }
        // avoids sun.misc.Unsafe, which newer JVMs warn about; ClassInjector defines classes
        System.setProperty("net.bytebuddy.safe", "true");
        InstallReporter reporter = new InstallReporter(status);
        HookInstaller installer = new HookInstaller(new ClassInjector(instrumentation, new JarFile(jar)), reporter);
        // Only method bodies change, so related types need not be resolved. Types that other agents have added may not
        // be found at all.
        ByteBuddy bodies = new ByteBuddy().with(MethodGraph.Compiler.ForDeclaredMethods.INSTANCE).with(TypeValidation.DISABLED);
        AgentBuilder builder = new AgentBuilder.Default(bodies)
                .with(AgentBuilder.TypeStrategy.Default.DECORATE)
                .disableClassFormatChanges()
                .with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION)
                .with(reporter)
                .ignore(nameStartsWith("dev.faultloom."));
        builder = TaskInstaller.add(builder, installer);
        builder = JdkHttpInstaller.add(builder, installer);
        builder = UrlConnectionInstaller.add(builder, installer, instrumentation);
        builder = OkHttpInstaller.add(builder, installer);
        builder = ServletInstaller.add(builder, installer);
        // Not by default: in a JVM that had just started, a few requests of thousands got no reply, and the reason is
        // unknown.
        if (variables.getOrDefault("FAULTLOOM_WEBFLUX", "").equals("on")) {
            builder = ReactorInstaller.add(builder, installer);
            builder = WebFluxInstaller.add(builder, installer);
        }
        builder = GrpcInstaller.add(builder, installer);
        builder.installOn(instrumentation);
    }
}

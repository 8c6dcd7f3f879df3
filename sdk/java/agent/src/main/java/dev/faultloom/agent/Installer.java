package dev.faultloom.agent;

import static net.bytebuddy.matcher.ElementMatchers.nameStartsWith;

import dev.faultloom.entry.Status;
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

/** Puts every hook in place. Without trust settings none is: the application runs as if the agent were not there. */
public final class Installer {
    private Installer() {}

    public static void install(Instrumentation instrumentation, File jar) throws IOException, ReflectiveOperationException {
        Map<String, String> variables = System.getenv();
        Process process = Process.current();
        Status status = Status.of(variables, process.service(), process.receiver()::state);
        if (variables.getOrDefault("FAULTLOOM_TRUST_FILE", "").isEmpty() && process.deaf()) {
            return; // settings in a file may still come, those of a variable cannot
        }
        // else it tries sun.misc.Unsafe, of which newer JVMs warn; we define classes by ourselves
        System.setProperty("net.bytebuddy.safe", "true");
        Report report = new Report(status);
        Hooking hooking = new Hooking(new Injection(instrumentation, new JarFile(jar)), report);
        // only bodies of methods change, so nothing of a type's surroundings has to be resolved; what other agents have put
        // there may not be found at all
        ByteBuddy bodies = new ByteBuddy().with(MethodGraph.Compiler.ForDeclaredMethods.INSTANCE).with(TypeValidation.DISABLED);
        AgentBuilder builder = new AgentBuilder.Default(bodies)
                .with(AgentBuilder.TypeStrategy.Default.DECORATE)
                .disableClassFormatChanges()
                .with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION)
                .with(report)
                .ignore(nameStartsWith("dev.faultloom."));
        builder = TaskHooking.add(builder, hooking);
        builder = JdkHttpHooking.add(builder, hooking);
        builder = UrlConnectionHooking.add(builder, hooking, instrumentation);
        builder = OkHttpHooking.add(builder, hooking);
        builder = ServletHooking.add(builder, hooking);
        builder = GrpcHooking.add(builder, hooking);
        builder.installOn(instrumentation);
    }
}

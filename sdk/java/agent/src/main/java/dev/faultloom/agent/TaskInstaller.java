package dev.faultloom.agent;

import static net.bytebuddy.matcher.ElementMatchers.isAbstract;
import static net.bytebuddy.matcher.ElementMatchers.isConstructor;
import static net.bytebuddy.matcher.ElementMatchers.isDeclaredBy;
import static net.bytebuddy.matcher.ElementMatchers.nameStartsWith;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.not;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;
import static net.bytebuddy.matcher.ElementMatchers.takesNoArguments;

import dev.faultloom.agent.advice.TaskAdvice;
import dev.faultloom.hooks.tasks.TaskPropagation;
import java.lang.reflect.Method;
import java.util.List;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.MemberSubstitution;

/**
 * Installs the hooks of the JDK's executors, futures and threads: tasks run inside the scope that submitted them.
 *
 * <pre>
 * ThreadPoolExecutor           execute ──▶ runWorker, where task.run() is replaced, as subclasses may override the rest
 * ScheduledThreadPoolExecutor  delayedExecute ──▶ the same
 * ForkJoinTask                 constructor, fork ──▶ doExec; the stages of CompletableFuture are such tasks
 * CompletableFuture            constructor of a stage ──▶ tryFire, on the thread that completes it; of a first stage
 *                              ──▶ run, as few processors give each a thread of its own
 * Thread                       start ──▶ run; runWith where there are virtual threads. Without an executor the scope is
 *                              inherited, because the thread may work for other requests too
 * </pre>
 */
final class TaskInstaller {
    private static final Library JDK = new Library("java.util.concurrent", List.of(), null, loader -> System.getProperty("java.version"));

    private TaskInstaller() {}

    static AgentBuilder add(AgentBuilder builder, HookInstaller installer) throws ReflectiveOperationException {
        Method run = TaskPropagation.class.getMethod("run", Runnable.class);
        return builder
                .type(named("java.util.concurrent.ThreadPoolExecutor"))
                .transform(installer.advise(JDK, named("execute"), TaskAdvice.SubmitsArgument.class))
                .transform(installer.advise(JDK, named("addWorker"), TaskAdvice.StartsWorker.class))
                .transform((builtType, type, loader, module, domain) -> builtType.visit(MemberSubstitution.relaxed()
                        .method(named("run").and(isDeclaredBy(Runnable.class))).replaceWith(run).on(named("runWorker"))))
                .type(named("java.util.concurrent.ScheduledThreadPoolExecutor"))
                .transform(installer.advise(JDK, named("delayedExecute"), TaskAdvice.SubmitsArgument.class))
                .type(named("java.util.concurrent.ForkJoinTask"))
                .transform(installer.advise(JDK, isConstructor(), TaskAdvice.Constructor.class))
                .transform(installer.advise(JDK, named("fork"), TaskAdvice.SubmitsThis.class))
                .transform(installer.advise(JDK, named("doExec"), TaskAdvice.Runs.class))
                .type(named("java.util.concurrent.ForkJoinPool"))
                .transform(installer.advise(JDK, named("createWorker"), TaskAdvice.StartsWorker.class))
                .type(nameStartsWith("java.util.concurrent.CompletableFuture$"))
                .transform(installer.advise(JDK, named("tryFire").and(not(isAbstract())), TaskAdvice.TriesToRun.class))
                .type(nameStartsWith("java.util.concurrent.CompletableFuture$Async"))
                .transform(installer.advise(JDK, named("run"), TaskAdvice.Runs.class))
                .type(named("java.lang.Thread"))
                .transform(installer.advise(JDK, named("start").and(takesNoArguments()), TaskAdvice.StartsThread.class))
                .transform(installer.advise(JDK, named("start").and(takesArguments(1)), TaskAdvice.StartsTask.class))
                .transform(installer.advise(JDK, named("run").or(named("runWith").and(takesArgument(1, Runnable.class))), TaskAdvice.Runs.class))
                .type(named("java.lang.VirtualThread"))
                .transform(installer.advise(JDK, named("start").and(takesNoArguments()), TaskAdvice.StartsThread.class))
                .transform(installer.advise(JDK, named("start").and(takesArguments(1)), TaskAdvice.StartsTask.class));
    }
}

package dev.faultloom.agent;

import static net.bytebuddy.matcher.ElementMatchers.isAbstract;
import static net.bytebuddy.matcher.ElementMatchers.isConstructor;
import static net.bytebuddy.matcher.ElementMatchers.isDeclaredBy;
import static net.bytebuddy.matcher.ElementMatchers.nameStartsWith;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.not;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;

import dev.faultloom.agent.advice.TaskAdvice;
import dev.faultloom.carry.Carried;
import java.lang.reflect.Method;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.MemberSubstitution;

/**
 * The JDK's executors, futures and threads: work that is handed over inside a scope runs inside it.
 *
 * <pre>
 * ThreadPoolExecutor           execute ──▶ runWorker, where task.run() is replaced: subclasses may override everything else
 * ScheduledThreadPoolExecutor  delayedExecute ──▶ the same
 * ForkJoinTask                 constructor, fork ──▶ doExec; the stages of CompletableFuture are such tasks
 * CompletableFuture            constructor of a stage ──▶ tryFire, when whoever completes it goes on by himself
 * Thread                       start ──▶ run; runWith where there are virtual threads
 * </pre>
 */
final class TaskHooking {
    private static final Library JDK = new Library("java.util.concurrent", null, null, loader -> System.getProperty("java.version"));

    private TaskHooking() {}

    static AgentBuilder add(AgentBuilder builder, Hooking hooking) throws ReflectiveOperationException {
        Method run = Carried.class.getMethod("run", Runnable.class);
        return builder
                .type(named("java.util.concurrent.ThreadPoolExecutor"))
                .transform(hooking.advise(JDK, named("execute"), TaskAdvice.Handed.class))
                .transform(hooking.advise(JDK, named("addWorker"), TaskAdvice.StartsWorker.class))
                .transform((made, type, loader, module, domain) -> made.visit(MemberSubstitution.relaxed()
                        .method(named("run").and(isDeclaredBy(Runnable.class))).replaceWith(run).on(named("runWorker"))))
                .type(named("java.util.concurrent.ScheduledThreadPoolExecutor"))
                .transform(hooking.advise(JDK, named("delayedExecute"), TaskAdvice.Handed.class))
                .type(named("java.util.concurrent.ForkJoinTask"))
                .transform(hooking.advise(JDK, isConstructor(), TaskAdvice.Made.class))
                .transform(hooking.advise(JDK, named("fork"), TaskAdvice.HandsItself.class))
                .transform(hooking.advise(JDK, named("doExec"), TaskAdvice.Runs.class))
                .type(nameStartsWith("java.util.concurrent.CompletableFuture$"))
                .transform(hooking.advise(JDK, named("tryFire").and(not(isAbstract())), TaskAdvice.Tries.class))
                .type(named("java.lang.Thread"))
                .transform(hooking.advise(JDK, named("start"), TaskAdvice.HandsItself.class))
                .transform(hooking.advise(JDK, named("run").or(named("runWith").and(takesArgument(1, Runnable.class))), TaskAdvice.Runs.class))
                .type(named("java.lang.VirtualThread"))
                .transform(hooking.advise(JDK, named("start"), TaskAdvice.HandsItself.class));
    }
}

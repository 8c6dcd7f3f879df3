package example.peer;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RecursiveTask;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Runs a step on another thread, in each of the ways that applications use. */
final class Elsewhere {
    // created and warmed up outside any request
    static final ExecutorService POOL = warm(Executors.newFixedThreadPool(2));
    private static final ScheduledExecutorService TIMER = warm(Executors.newScheduledThreadPool(1));

    private Elsewhere() {}

    private static <E extends ExecutorService> E warm(E executor) {
        executor.submit(() -> { });
        return executor;
    }

    static String run(String where, Supplier<String> step) {
        try {
            return started(where, step);
        } catch (Exception e) {
            return e.toString();
        }
    }

    private static String started(String where, Supplier<String> step) throws Exception {
        Callable<String> task = step::get;
        switch (where) {
            case "pool":
                return POOL.submit(task).get(20, TimeUnit.SECONDS);
            case "pool-execute":
                CompletableFuture<String> done = new CompletableFuture<>();
                POOL.execute(() -> done.complete(step.get()));
                return done.get(20, TimeUnit.SECONDS);
            case "invoke-all":
                return POOL.invokeAll(List.of(task)).get(0).get();
            case "scheduled":
                return TIMER.schedule(task, 10, TimeUnit.MILLISECONDS).get(20, TimeUnit.SECONDS);
            case "common-pool":
                return ForkJoinPool.commonPool().submit(task).get(20, TimeUnit.SECONDS);
            case "fork":
                return ForkJoinPool.commonPool().submit(() -> new RecursiveTask<String>() {
                    @Override
                    protected String compute() {
                        return step.get();
                    }
                }.fork().join()).get(20, TimeUnit.SECONDS);
            case "parallel-stream":
                return List.of(1, 2, 3, 4, 5, 6, 7, 8).parallelStream().map(i -> i == 7 ? step.get() : "").reduce("", String::concat);
            case "supply-async":
                return CompletableFuture.supplyAsync(step).get(20, TimeUnit.SECONDS);
            case "supply-async-pool":
                return CompletableFuture.supplyAsync(step, POOL).get(20, TimeUnit.SECONDS);
            case "then-apply-async":
                return later(null).thenApplyAsync(x -> step.get()).get(20, TimeUnit.SECONDS);
            case "then-apply":
                return later(null).thenApply(x -> step.get()).get(20, TimeUnit.SECONDS);
            case "then-compose-pool":
                return later(null).thenComposeAsync(x -> CompletableFuture.completedFuture(step.get()), POOL).get(20, TimeUnit.SECONDS);
            case "thread":
                String[] result = new String[1];
                Thread thread = new Thread(() -> result[0] = step.get());
                thread.start();
                thread.join(20_000);
                return result[0];
            case "thread-subclass":
                String[] own = new String[1];
                Thread subclass = new Thread() {
                    @Override
                    public void run() {
                        own[0] = step.get();
                    }
                };
                subclass.start();
                subclass.join(20_000);
                return own[0];
            case "virtual-thread":
                return virtual(task);
            case "outsider":
                return Outsider.INSTANCE.run(step);
            case "worker":
                return Lazy.INSTANCE.run(step);
            case "answered":
                new Thread(() -> {
                    Gate.await("answered");
                    step.get();
                    Gate.open("called");
                }).start();
                return "started";
            default:
                return "no such executor: " + where;
        }
    }

    /** A future that a thread without a scope completes. */
    private static CompletableFuture<String> later(String value) {
        CompletableFuture<String> future = new CompletableFuture<>();
        Outsider.INSTANCE.complete(future, value);
        return future;
    }

    private static String virtual(Callable<String> task) throws ReflectiveOperationException, InterruptedException, ExecutionException {
        ExecutorService executor = (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        try {
            return executor.submit(task).get();
        } finally {
            executor.shutdown();
        }
    }

    /** A thread that was started before any request. */
    private static final class Outsider {
        static final Worker INSTANCE = new Worker();
    }

    /** A thread that is started by the first request that uses it. */
    private static final class Lazy {
        static final Worker INSTANCE = new Worker();
    }

    /** A thread with a queue that no hook knows. */
    private static final class Worker {
        private final List<Runnable> waiting = new ArrayList<>();

        private Worker() {
            Thread thread = new Thread(this::loop);
            thread.setDaemon(true);
            thread.start();
        }

        private synchronized void complete(CompletableFuture<String> future, String value) {
            waiting.add(() -> future.complete(value));
            notifyAll();
        }

        private String run(Supplier<String> step) throws Exception {
            CompletableFuture<String> future = new CompletableFuture<>();
            synchronized (this) {
                waiting.add(() -> future.complete(step.get()));
                notifyAll();
            }
            return future.get(20, TimeUnit.SECONDS);
        }

        private void loop() {
            try {
                while (true) {
                    Runnable next;
                    synchronized (this) {
                        while (waiting.isEmpty()) {
                            wait();
                        }
                        next = waiting.remove(0);
                    }
                    Thread.sleep(20); // until the dependent stage has been added
                    next.run();
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Starts the threads that must not belong to a request. */
    static void prepare() {
        Outsider.INSTANCE.hashCode();
    }
}

package contexts;

import com.google.gson.Gson;
import com.google.gson.annotations.SerializedName;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;

/** Makes the calls of a plan, with their context or without it. See ../README.md. */
public final class Contexts {
    private static final int WORKERS = 32;
    private static final long QUEUE_INTERVAL_MS = 3;
    /** A cached worker ends after this many jobs, or when it was idle for this long. */
    private static final int CACHED_JOBS = 6;
    private static final long CACHED_IDLE_MS = 50;
    private static final long AFTER_DELAY_MS = 15;

    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final Gson gson = new Gson();
    private final ExecutorService executor = Executors.newFixedThreadPool(WORKERS);
    private final BlockingQueue<Runnable> pool = new LinkedBlockingQueue<>();
    private final SynchronousQueue<Runnable> cached = new SynchronousQueue<>();
    private final BlockingQueue<Runnable> batch = new LinkedBlockingQueue<>();
    private final Timer timer = new Timer(true);

    private static final class Work {
        String request;
        List<Step> steps = new ArrayList<>();
    }

    private static final class Step {
        String call;
        String mode;
        String peer;

        @SerializedName("pause_ms")
        int pauseMs;

        boolean wait;
        List<Step> steps = new ArrayList<>();
    }

    private interface Job {
        void run() throws InterruptedException;
    }

    private static void startThread(Job job) {
        Thread thread = new Thread(() -> {
            try {
                job.run();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void startWorkers() {
        for (int i = 0; i < WORKERS; i++) {
            startThread(() -> {
                while (true) {
                    pool.take().run();
                }
            });
        }
        startThread(() -> {
            while (true) {
                Runnable job = batch.take();
                Thread.sleep(QUEUE_INTERVAL_MS);
                startThread(job::run);
            }
        });
    }

    private void workCached(Runnable job) throws InterruptedException {
        job.run();
        for (int i = 1; i < CACHED_JOBS; i++) {
            Runnable next = cached.poll(CACHED_IDLE_MS, TimeUnit.MILLISECONDS);
            if (next == null) {
                return;
            }
            next.run();
        }
    }

    /** Makes the call. The latch is released when it has ended. */
    private CountDownLatch begin(String request, Step step) {
        CountDownLatch ended = new CountDownLatch(1);
        Runnable call = () -> {
            try {
                send(request, step);
            } finally {
                ended.countDown();
            }
        };
        switch (step.mode) {
            case "context":
                call.run();
                break;
            case "thread":
                startThread(call::run);
                break;
            case "executor":
                executor.execute(call);
                break;
            case "pool":
                pool.add(call);
                break;
            case "cached":
                if (!cached.offer(call)) {
                    startThread(() -> workCached(call));
                }
                break;
            case "queue":
                batch.add(call);
                break;
            case "timer":
                timer.schedule(
                        new TimerTask() {
                            @Override
                            public void run() {
                                startThread(call::run);
                            }
                        },
                        1);
                break;
            case "after":
                startThread(() -> {
                    Thread.sleep(AFTER_DELAY_MS);
                    call.run();
                });
                break;
            default:
                throw new IllegalArgumentException("unknown mode '" + step.mode + "'");
        }
        return ended;
    }

    private void send(String request, Step step) {
        Work work = new Work();
        work.request = request;
        work.steps = step.steps;
        HttpRequest call = HttpRequest.newBuilder(URI.create("http://" + step.peer + "/run/" + step.call))
                .header("content-type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(gson.toJson(work)))
                .build();
        try {
            int status = http.send(call, HttpResponse.BodyHandlers.ofString()).statusCode();
            if (status != 200) {
                System.out.println("failed " + step.call + " " + status);
            }
        } catch (IOException e) {
            System.out.println("failed " + step.call + " " + e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void run(HttpExchange exchange) throws IOException {
        String path = exchange.getRequestURI().getPath();
        String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
        Work work = gson.fromJson(body, Work.class);
        System.out.println("call " + path.substring(path.lastIndexOf('/') + 1) + " " + work.request);
        try {
            List<CountDownLatch> pending = new ArrayList<>();
            for (Step step : work.steps) {
                Thread.sleep(step.pauseMs);
                CountDownLatch ended = begin(work.request, step);
                if (step.mode.equals("after")) {
                    continue;
                }
                if (step.wait) {
                    ended.await();
                } else {
                    pending.add(ended);
                }
            }
            for (CountDownLatch ended : pending) {
                ended.await();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        exchange.getResponseHeaders().set("content-type", "application/json");
        exchange.sendResponseHeaders(200, 2);
        exchange.getResponseBody().write("{}".getBytes(StandardCharsets.UTF_8));
        exchange.close();
    }

    public static void main(String[] arguments) throws IOException {
        Contexts contexts = new Contexts();
        contexts.startWorkers();
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT")));
        HttpServer server = HttpServer.create(address, 0);
        server.setExecutor(Executors.newFixedThreadPool(WORKERS));
        server.createContext("/run/", contexts::run);
        server.createContext("/healthz", exchange -> {
            exchange.sendResponseHeaders(200, -1);
            exchange.close();
        });
        server.start();
    }
}

package dev.faultloom.entry;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.faultloom.scope.HistorySink;
import dev.faultloom.wire.History;
import dev.faultloom.wire.OtlpRequest;
import dev.faultloom.wire.WireError;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Sends histories to an OTLP/HTTP endpoint, on its own thread. Replies never wait for it: histories that cannot be sent
 * are dropped and counted.
 */
public final class Exporter implements HistorySink {
    static final int QUEUE_SIZE = 256;
    static final int BATCH_SIZE = 64;
    private static final long BATCH_WINDOW_NANOS = 1_000_000_000;
    private static final long CLOSE_TIMEOUT_MS = 1000;
    private static final long REPORT_INTERVAL_NANOS = 60_000_000_000L;

    private final Endpoint endpoint;
    private final BlockingQueue<FinishedHistory> queue = new ArrayBlockingQueue<>(QUEUE_SIZE);
    private final AtomicLong dropped = new AtomicLong();
    private final Thread thread;
    private volatile boolean closing;
    private boolean hasReported;
    private long reportedAtNanos;

    private static final class FinishedHistory {
        final long traceHigh;
        final long traceLow;
        final boolean hasParent;
        final byte[] history;

        FinishedHistory(long traceHigh, long traceLow, boolean hasParent, byte[] history) {
            this.traceHigh = traceHigh;
            this.traceLow = traceLow;
            this.hasParent = hasParent;
            this.history = history;
        }
    }

    private Exporter(Endpoint endpoint) {
        this.endpoint = endpoint;
        // without inherited thread locals: they belong to the work of the starting thread
        thread = new Thread(null, this::run, "faultloom-export", 0, false);
        thread.setDaemon(true);
    }

    /** Starts the thread, and sends queued histories when the process exits. */
    static Exporter start(Endpoint endpoint) {
        Exporter exporter = new Exporter(endpoint);
        exporter.thread.start();
        try {
            Runtime.getRuntime().addShutdownHook(new Thread(null, exporter::close, "faultloom-export-close", 0, false));
        } catch (IllegalStateException e) {
            // the process is exiting
        }
        return exporter;
    }

    /** Starts an exporter to this URL; null if it is not {@code http://…} or {@code https://…}. */
    public static Exporter to(String address) {
        Endpoint endpoint = Endpoint.parse(address);
        return endpoint == null ? null : start(endpoint);
    }

    /** Queues a history; drops it if the queue is full. */
    @Override
    public void add(long traceHigh, long traceLow, boolean hasParent, byte[] history) {
        if (!queue.offer(new FinishedHistory(traceHigh, traceLow, hasParent, history))) {
            dropped.incrementAndGet();
        }
    }

    /** Sends queued histories for at most one second, and stops. */
    public void close() {
        closing = true;
        thread.interrupt(); // it may be waiting for histories
        try {
            thread.join(CLOSE_TIMEOUT_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void run() {
        List<FinishedHistory> batch = new ArrayList<>(BATCH_SIZE);
        while (!closing || !queue.isEmpty()) {
            collect(batch);
            if (!batch.isEmpty()) {
                send(batch);
                batch.clear();
            }
            reportDropped();
        }
    }

    private void collect(List<FinishedHistory> batch) {
        try {
            FinishedHistory first = closing ? queue.poll() : queue.poll(REPORT_INTERVAL_NANOS, TimeUnit.NANOSECONDS);
            if (first == null) {
                return;
            }
            batch.add(first);
            long start = System.nanoTime();
            while (batch.size() < BATCH_SIZE && !closing) {
                FinishedHistory next = queue.poll(BATCH_WINDOW_NANOS - (System.nanoTime() - start), TimeUnit.NANOSECONDS);
                if (next == null) {
                    break;
                }
                batch.add(next);
            }
        } catch (InterruptedException e) {
            // closing: send the batch now
        }
        queue.drainTo(batch, BATCH_SIZE - batch.size());
    }

    private void send(List<FinishedHistory> batch) {
        OtlpRequest otlp = new OtlpRequest();
        int decoded = 0;
        for (FinishedHistory f : batch) {
            try {
                otlp.add(f.traceHigh, f.traceLow, f.hasParent, History.decode(f.history));
                decoded++;
            } catch (WireError e) {
                dropped.incrementAndGet(); // a callee returned a malformed history
            }
        }
        if (decoded == 0) {
            return;
        }
        try {
            int status = endpoint.post(otlp.json().getBytes(UTF_8));
            if (status < 200 || status > 299) {
                dropped.addAndGet(decoded);
            }
        } catch (IOException | RuntimeException e) {
            dropped.addAndGet(decoded);
        }
    }

    /** Prints at most one line a minute. */
    private void reportDropped() {
        if (dropped.get() > 0 && (!hasReported || System.nanoTime() - reportedAtNanos >= REPORT_INTERVAL_NANOS)) {
            hasReported = true;
            reportedAtNanos = System.nanoTime();
            System.err.println("faultloom: " + dropped.getAndSet(0) + " histories were not exported");
        }
    }
}

package dev.faultloom.entry;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.faultloom.wire.History;
import dev.faultloom.wire.Otlp;
import dev.faultloom.wire.WireError;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Sends finished histories to an OTLP/HTTP endpoint, from a thread of its own. What cannot be sent is lost and counted: a
 * reply never waits for it.
 */
public final class Exporter {
    static final int QUEUE = 256;
    static final int BATCH = 64;
    private static final long COLLECT_NANOS = 1_000_000_000;
    private static final long END_MS = 1000;
    private static final long TELL_NANOS = 60_000_000_000L;

    private final Endpoint endpoint;
    private final BlockingQueue<Finished> queue = new ArrayBlockingQueue<>(QUEUE);
    private final AtomicLong lost = new AtomicLong();
    private final Thread thread;
    private volatile boolean ending;
    private boolean told;
    private long toldAt;

    private static final class Finished {
        final long traceHigh;
        final long traceLow;
        final boolean hasParent;
        final byte[] history;

        Finished(long traceHigh, long traceLow, boolean hasParent, byte[] history) {
            this.traceHigh = traceHigh;
            this.traceLow = traceLow;
            this.hasParent = hasParent;
            this.history = history;
        }
    }

    private Exporter(Endpoint endpoint) {
        this.endpoint = endpoint;
        // no inherited thread locals: whatever the starting thread works on is not ours
        thread = new Thread(null, this::run, "faultloom-export", 0, false);
        thread.setDaemon(true);
    }

    /** Starts the thread, and sees to it that what waits is sent when the process ends. */
    static Exporter start(Endpoint endpoint) {
        Exporter exporter = new Exporter(endpoint);
        exporter.thread.start();
        try {
            Runtime.getRuntime().addShutdownHook(new Thread(null, exporter::close, "faultloom-export-end", 0, false));
        } catch (IllegalStateException e) {
            // the process is ending already
        }
        return exporter;
    }

    /** An exporter to this address, or null if it is not {@code http://…} or {@code https://…}. */
    public static Exporter to(String address) {
        Endpoint endpoint = Endpoint.parse(address);
        return endpoint == null ? null : start(endpoint);
    }

    /** Takes a finished history; it is lost if the queue is full. Does not block. */
    public void offer(long traceHigh, long traceLow, boolean hasParent, byte[] history) {
        if (!queue.offer(new Finished(traceHigh, traceLow, hasParent, history))) {
            lost.incrementAndGet();
        }
    }

    /** Sends what waits, for at most one second, and stops. */
    public void close() {
        ending = true;
        thread.interrupt(); // it may be waiting for more
        try {
            thread.join(END_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void run() {
        List<Finished> batch = new ArrayList<>(BATCH);
        while (!ending || !queue.isEmpty()) {
            collect(batch);
            if (!batch.isEmpty()) {
                send(batch);
                batch.clear();
            }
            tell();
        }
    }

    private void collect(List<Finished> batch) {
        try {
            Finished first = ending ? queue.poll() : queue.poll(TELL_NANOS, TimeUnit.NANOSECONDS);
            if (first == null) {
                return;
            }
            batch.add(first);
            long begun = System.nanoTime();
            while (batch.size() < BATCH && !ending) {
                Finished next = queue.poll(COLLECT_NANOS - (System.nanoTime() - begun), TimeUnit.NANOSECONDS);
                if (next == null) {
                    break;
                }
                batch.add(next);
            }
        } catch (InterruptedException e) {
            // the end: what is there goes out now
        }
        queue.drainTo(batch, BATCH - batch.size());
    }

    private void send(List<Finished> batch) {
        Otlp otlp = new Otlp();
        int readable = 0;
        for (Finished f : batch) {
            try {
                otlp.add(f.traceHigh, f.traceLow, f.hasParent, History.decode(f.history));
                readable++;
            } catch (WireError e) {
                lost.incrementAndGet(); // a callee sent something that is not a history
            }
        }
        if (readable == 0) {
            return;
        }
        try {
            int status = endpoint.post(otlp.json().getBytes(UTF_8));
            if (status < 200 || status > 299) {
                lost.addAndGet(readable);
            }
        } catch (IOException | RuntimeException e) {
            lost.addAndGet(readable);
        }
    }

    /** At most once a minute. */
    private void tell() {
        if (lost.get() > 0 && (!told || System.nanoTime() - toldAt >= TELL_NANOS)) {
            told = true;
            toldAt = System.nanoTime();
            System.err.println("faultloom: " + lost.getAndSet(0) + " histories were not exported");
        }
    }
}

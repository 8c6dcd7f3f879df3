package example.peer;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Lets one request wait for another. */
final class Gate {
    private static final Map<String, CountDownLatch> GATES = new ConcurrentHashMap<>();

    private Gate() {}

    private static CountDownLatch gate(String name) {
        return GATES.computeIfAbsent(name, n -> new CountDownLatch(1));
    }

    static void open(String name) {
        gate(name).countDown();
    }

    static String await(String name) {
        try {
            return gate(name).await(20, TimeUnit.SECONDS) ? "open" : "closed";
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return "interrupted";
        }
    }
}

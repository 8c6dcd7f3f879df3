package dev.faultloom.scope;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.wire.Fault;
import dev.faultloom.wire.Kind;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(10)
class WaitsTest {
    private static final long FOREVER = Long.MAX_VALUE;
    private static final Process ON = Scopes.process("front");

    @Test
    void waitsAreCapped() {
        assertEquals(30_000, ms(Fault.of(Kind.HANG)));
        assertEquals(30_000, ms(Fault.of(Kind.HANG).arg(-1)));
        assertEquals(30_000, ms(Fault.of(Kind.DELAY).arg(1L << 40)));
        assertEquals(29_999, ms(Fault.of(Kind.HANG).arg(29_999)));
        assertEquals(0, ms(Fault.of(Kind.DELAY)));
    }

    private static long ms(Fault f) {
        return TimeUnit.NANOSECONDS.toMillis(Waits.nanos(f));
    }

    @Test
    void aDelayTakesItsTimeUnlessTheDeadlineComesFirst() throws Exception {
        Fault delay = Fault.of(Kind.DELAY).arg(300);
        long begun = System.nanoTime();
        assertTrue(Waits.await(ON, delay, FOREVER));
        assertTrue(Waits.later(ON, delay, FOREVER).get());
        assertTrue(System.nanoTime() - begun >= 600_000_000L);
        assertFalse(Waits.await(ON, Fault.of(Kind.HANG), 10_000_000));
        assertFalse(Waits.later(ON, Fault.of(Kind.HANG), 10_000_000).get());
        assertTrue(Waits.await(ON, Fault.of(Kind.DELAY), FOREVER));
    }

    @Test
    void aWaitEndsWhenFaultsAreSwitchedOff(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("trust");
        Files.write(file, "environment demo".getBytes(UTF_8));
        Process p = Process.of(Map.of("FAULTLOOM_TRUST_FILE", file.toString()));
        assertTrue(p.receiver().faultsOn());
        CompletableFuture<Boolean> later = Waits.later(p, Fault.of(Kind.HANG), FOREVER);
        Files.write(file, "environment demo;faults off".getBytes(UTF_8));
        assertTrue(Waits.await(p, Fault.of(Kind.HANG), FOREVER));
        assertTrue(later.get());
    }

    @Test
    void aWaitEndsWithItsThreadOrItsCaller() {
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> Waits.await(ON, Fault.of(Kind.HANG), FOREVER));
        CompletableFuture<Boolean> later = Waits.later(ON, Fault.of(Kind.HANG), FOREVER);
        assertTrue(later.cancel(true));
    }
}

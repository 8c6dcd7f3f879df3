package dev.faultloom.scope;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.trust.Receiver;
import dev.faultloom.trust.TrustSource;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(10)
class FaultDelayTest {
    private static final Process ENABLED = Scopes.process("front");

    @Test
    void waitTakesItsTime() throws Exception {
        long start = System.nanoTime();
        assertTrue(FaultDelay.waitForFault(ENABLED, 100));
        assertTrue(FaultDelay.waitForFaultAsync(ENABLED, 100).get());
        assertTrue(System.nanoTime() - start >= 200_000_000L);
        assertTrue(FaultDelay.waitForFault(ENABLED, 0));
        assertTrue(FaultDelay.waitForFaultAsync(ENABLED, 0).isDone());
    }

    @Test
    void disablingFaultsEndsAWait(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("trust");
        Files.write(file, "environment demo".getBytes(UTF_8));
        Process p = new Process("front", Map.of(), new Receiver(TrustSource.fromFile(file)));
        assertTrue(p.receiver().faultsEnabled());
        CompletableFuture<Boolean> wait = FaultDelay.waitForFaultAsync(p, 30_000);
        Files.write(file, "environment demo;faults off".getBytes(UTF_8));
        assertFalse(FaultDelay.waitForFault(p, 30_000));
        assertFalse(wait.get());
    }

    @Test
    void waitEndsWhenItsThreadIsInterruptedOrItsResultCanceled() {
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> FaultDelay.waitForFault(ENABLED, 30_000));
        CompletableFuture<Boolean> result = FaultDelay.waitForFaultAsync(ENABLED, 30_000);
        assertTrue(result.cancel(true));
    }
}

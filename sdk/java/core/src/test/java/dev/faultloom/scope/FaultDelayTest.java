package dev.faultloom.scope;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.hooks.faults.FaultEffect;
import dev.faultloom.hooks.faults.Faults;
import dev.faultloom.hooks.faults.Protocol;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(10)
class FaultDelayTest {
    private static final FaultEffect HANG = effect(Fault.of(FaultKind.HANG), Faults.NO_TIMEOUT);
    private static final Process ENABLED = Scopes.process("front");

    private static FaultEffect effect(Fault fault, long timeoutMs) {
        return Faults.faultEffect(Protocol.HTTP, fault, timeoutMs);
    }

    @Test
    void delayTakesItsTimeUnlessTheTimeoutIsShorter() throws Exception {
        FaultEffect delay = effect(Fault.of(FaultKind.DELAY).arg(100), Faults.NO_TIMEOUT);
        long start = System.nanoTime();
        assertTrue(FaultDelay.waitForFault(ENABLED, delay));
        assertTrue(FaultDelay.waitForFaultAsync(ENABLED, delay).get());
        assertTrue(System.nanoTime() - start >= 200_000_000L);
        FaultEffect timeout = effect(Fault.of(FaultKind.DELAY).arg(100), 10);
        assertFalse(FaultDelay.waitForFault(ENABLED, timeout));
        assertFalse(FaultDelay.waitForFaultAsync(ENABLED, timeout).get());
        assertTrue(FaultDelay.waitForFault(ENABLED, effect(Fault.of(FaultKind.DELAY), Faults.NO_TIMEOUT)));
    }

    @Test
    void hangEndsWithoutSending() throws Exception {
        FaultEffect hang = effect(Fault.of(FaultKind.HANG).arg(10), Faults.NO_TIMEOUT);
        assertFalse(FaultDelay.waitForFault(ENABLED, hang));
        assertFalse(FaultDelay.waitForFaultAsync(ENABLED, hang).get());
    }

    @Test
    void disablingFaultsEndsAWait(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("trust");
        Files.write(file, "environment demo".getBytes(UTF_8));
        Process p = Process.of(Map.of("FAULTLOOM_TRUST_FILE", file.toString()));
        assertTrue(p.receiver().faultsEnabled());
        CompletableFuture<Boolean> hang = FaultDelay.waitForFaultAsync(p, HANG);
        // would time out, but is sent at once because faults are disabled
        CompletableFuture<Boolean> delay = FaultDelay.waitForFaultAsync(p, effect(Fault.of(FaultKind.DELAY).arg(30_000), 20_000));
        Files.write(file, "environment demo;faults off".getBytes(UTF_8));
        assertFalse(FaultDelay.waitForFault(p, HANG));
        assertFalse(hang.get());
        assertTrue(delay.get());
    }

    @Test
    void waitEndsWhenItsThreadIsInterruptedOrItsResultCanceled() {
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> FaultDelay.waitForFault(ENABLED, HANG));
        CompletableFuture<Boolean> result = FaultDelay.waitForFaultAsync(ENABLED, HANG);
        assertTrue(result.cancel(true));
    }
}

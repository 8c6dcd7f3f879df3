package dev.faultloom.hooks.faults;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Cases that the vectors of kind {@code hook} do not cover. */
class FaultsTest {
    private static int waitMs(Fault fault) {
        return Faults.faultEffect(Protocol.HTTP, fault, Faults.NO_TIMEOUT).waitMs;
    }

    @Test
    void waitsAreCapped() {
        assertEquals(30_000, waitMs(Fault.of(FaultKind.HANG)));
        assertEquals(30_000, waitMs(Fault.of(FaultKind.HANG).arg(-1)));
        assertEquals(30_000, waitMs(Fault.of(FaultKind.DELAY).arg(1L << 40)));
        assertEquals(29_999, waitMs(Fault.of(FaultKind.HANG).arg(29_999)));
        assertEquals(0, waitMs(Fault.of(FaultKind.DELAY)));
    }

    private static FaultEffect effect(FaultKind kind, long timeoutMs) {
        return Faults.faultEffect(Protocol.GRPC, Fault.of(kind).arg(100), timeoutMs);
    }

    @Test
    void delayIsSentAfterItsWaitUnlessTheTimeoutIsShorter() {
        assertTrue(effect(FaultKind.DELAY, Faults.NO_TIMEOUT).sendsAfterWait(true));
        assertTrue(effect(FaultKind.DELAY, 101).sendsAfterWait(true));
        assertFalse(effect(FaultKind.DELAY, 100).sendsAfterWait(true));
        assertFalse(effect(FaultKind.HANG, Faults.NO_TIMEOUT).sendsAfterWait(true));
    }

    @Test
    void onlyADelayIsSentWhenFaultsAreDisabled() {
        for (FaultKind kind : FaultKind.values()) {
            assertEquals(kind == FaultKind.DELAY, effect(kind, 10).sendsAfterWait(false), kind.text());
            assertEquals(kind == FaultKind.LOST_REPLY, effect(kind, 10).losesReply(), kind.text());
        }
    }

    @Test
    void timeoutsAreRoundedUp() {
        assertEquals(Faults.NO_TIMEOUT, Faults.timeoutMs(Long.MAX_VALUE));
        assertEquals(0, Faults.timeoutMs(0));
        assertEquals(0, Faults.timeoutMs(-5));
        assertEquals(1, Faults.timeoutMs(1));
        assertEquals(5, Faults.timeoutMs(TimeUnit.MILLISECONDS.toNanos(5)));
        assertTrue(Faults.timeoutMs(Long.MAX_VALUE - 1) > 0);
    }

    @Test
    void bodiesAreEmptiedOrCorruptedOrUnchanged() {
        byte[] body = {1, 2, 3, 4};
        assertEquals(0, Faults.changeBody(Outcome.EMPTY, body, 4));
        assertEquals(4, Faults.changeBody(Outcome.REPLY, body, 4));
        assertArrayEquals(new byte[] {1, 2, 3, 4}, body);
        assertEquals(2, Faults.changeBody(Outcome.CORRUPT, body, 2));
        assertArrayEquals(new byte[] {1, -1, 3, 4}, body);
        assertFalse(Faults.faultEffect(Protocol.GRPC, null, 10).changesBody());
    }

    @Test
    void noOtherHookComparesKinds() throws IOException {
        Pattern kinds = Pattern.compile("\\bFaultKind\\b|\\bfault\\.kind\\b");
        int hooks = 0;
        for (String module : new String[] {"core", "hooks", "agent"}) {
            try (Stream<Path> files = Files.walk(Path.of("..", module, "src", "main", "java", "dev", "faultloom", "hooks"))) {
                for (Path file : files.filter(path -> path.toString().endsWith(".java")).collect(Collectors.toList())) {
                    if (!file.getParent().endsWith("faults")) {
                        hooks++;
                        assertFalse(kinds.matcher(Files.readString(file)).find(), file.toString());
                    }
                }
            }
        }
        assertTrue(hooks > 30, hooks + " files");
    }
}

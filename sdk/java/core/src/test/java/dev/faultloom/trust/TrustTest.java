package dev.faultloom.trust;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.Seeded;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import dev.faultloom.wire.Text;
import dev.faultloom.wire.WireError;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TrustTest {
    private static final String SECRET = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    private static final String BOTH = "environment demo;key trace t1 " + SECRET + ";key fault f1 " + SECRET.replace('0', '1');

    private static TrustSettings settings(String text) throws TrustSettings.Invalid {
        return TrustSettings.parse(text);
    }

    private static Envelope sign(TrustSettings s, boolean plan, long call) throws WireError {
        return Signer.of(s, plan).sign(1, 2, null, plan ? List.of(Fault.of(FaultKind.RESET)) : null, false, call, 1060);
    }

    private static byte[] envelope(TrustSettings s, boolean plan, long call) throws WireError {
        return sign(s, plan, call).assemble(call, 0, 0, null);
    }

    @Test
    void settingsAreAllOrNothing() throws Exception {
        for (String good : new String[] {"environment demo",
            "# comment\n\n environment  demo \n\tkey trace t1 " + SECRET + "\r\nfaults off\n",
            "environment demo;key fault f1 " + SECRET.toUpperCase(Locale.ROOT) + ";faults on"}) {
            assertEquals("demo", settings(good).environment);
            assertEquals(!good.contains("off"), settings(good).faultsEnabled);
        }
        Map<String, Integer> bad = Map.ofEntries(Map.entry("", 0), Map.entry("faults on", 0), Map.entry("environment a\nfaults", 2),
                Map.entry("environment a;;nonsense", 3), Map.entry("environment a b", 1), Map.entry("environment", 1),
                Map.entry("environment a\nkey trace t1 " + SECRET.substring(4), 2), Map.entry("environment a\nkey trace t1 " + SECRET + "00", 2),
                Map.entry("environment a\nkey other t1 " + SECRET, 2), Map.entry("environment a\nkey trace t1 zz" + SECRET.substring(2), 2),
                Map.entry("environment a\nkey trace " + "x".repeat(33) + " " + SECRET, 2), Map.entry("environment a\nfaults maybe", 2),
                Map.entry("environment " + "e".repeat(65), 1));
        bad.forEach((text, line) -> {
            TrustSettings.Invalid e = assertThrows(TrustSettings.Invalid.class, () -> settings(text), text);
            assertEquals(line, e.line, text);
            assertFalse(e.getMessage().contains(SECRET.substring(4, 12)), e.getMessage());
        });
    }

    @Test
    void randomSettingsAreParsedOrRejected() {
        Random r = Seeded.random("random settings");
        String[] words = {"environment", "demo", "key", "trace", "fault", "t1", SECRET, "faults", "on", "off", "#", ";", "\n", " ", "é", "\t", "\r"};
        int parsed = 0;
        for (int i = 0; i < 20_000; i++) {
            StringBuilder text = new StringBuilder(r.nextBoolean() ? "environment demo;" : "");
            for (int n = r.nextInt(8); n > 0; n--) {
                text.append(words[r.nextInt(words.length)]).append(r.nextBoolean() ? " " : "");
            }
            try {
                assertNotNull(settings(text.toString()).environment);
                parsed++;
            } catch (TrustSettings.Invalid e) {
                assertFalse(e.getMessage().contains(SECRET), e.getMessage());
            }
        }
        assertTrue(parsed > 500, "too few were valid: " + parsed);
    }

    @Test
    void replayCacheIsBoundedAndEvictsTheOldest() {
        ReplayCache cache = new ReplayCache();
        for (int call = 1; call <= ReplayCache.MAX_ENTRIES; call++) {
            assertTrue(cache.admit(1, 2, call, 0, 1060, 1000));
        }
        assertFalse(cache.admit(1, 2, 1, 0, 1060, 1000), "the lookup precedes the eviction");
        assertTrue(cache.admit(1, 2, 1, 1, 1060, 1000), "another attempt");
        assertTrue(cache.admit(1, 2, 1, 0, 1060, 1000), "the oldest was evicted");
        assertEquals(ReplayCache.MAX_ENTRIES, cache.size());
        assertTrue(cache.admit(1, 2, 9, 0, 5000, 1060), "expired");
        assertEquals(1, cache.size());
    }

    @Test
    void eachEnvelopeHasOneText() throws Exception {
        TrustSettings s = settings(BOTH);
        String text = Text.encodeBase64(envelope(s, true, 9));
        for (String bad : new String[] {text + "=", text + "\n", " " + text, text.substring(0, 5) + "\r\n" + text.substring(5), ""}) {
            assertSame(WireError.MALFORMED, assertThrows(WireError.class, () -> new Receiver(s).acceptHeader(bad, 1000)), bad);
        }
        assertSame(WireError.OVERSIZED, assertThrows(WireError.class, () -> new Receiver(s).acceptHeader("A".repeat(2732), 1000)));
        assertNotNull(new Receiver(s).acceptHeader(text, 1000));
    }

    @Test
    void replayedBridgedPlanIsDetectedByTheCallInTraceparent() throws Exception {
        TrustSettings s = settings(BOTH);
        Receiver receiver = new Receiver(s);
        String text = Text.encodeBase64(envelope(s, true, 9));
        assertEquals(77, receiver.acceptBridged(text, 77, 1000).hop.call);
        assertNotNull(receiver.acceptBridged(text, 78, 1000));
        assertSame(WireError.REPLAYED, assertThrows(WireError.class, () -> receiver.acceptBridged(text, 77, 1000)));
    }

    @Test
    void planRequiresAFaultKey() throws Exception {
        TrustSettings trace = settings("environment demo;key trace t1 " + SECRET);
        assertNull(Signer.of(trace, true));
        assertSame(WireError.PLAN_NOT_PERMITTED,
                assertThrows(WireError.class, () -> Signer.of(trace, false).sign(List.of(Fault.of(FaultKind.RESET)), 1)));
        assertNotNull(Signer.of(settings("environment demo;key fault f1 " + SECRET), false), "a fault key also permits history");
    }

    @Test
    void changedEnvelopesAreRejected() throws Exception {
        Random r = Seeded.random("changed envelopes");
        TrustSettings s = settings(BOTH);
        byte[] good = envelope(s, false, 5);
        int signedPart = sign(s, false, 5).assemble(0, 0, 0, null).length - 10;
        Receiver receiver = new Receiver(s);
        assertNotNull(receiver.accept(good.clone(), 1000, 0));
        for (int i = 0; i < 20_000; i++) {
            byte[] changed = good.clone();
            changed[r.nextInt(signedPart)] ^= 1 << r.nextInt(8);
            assertThrows(WireError.class, () -> receiver.accept(changed, 1000, 0), () -> Text.hex(changed));
        }
    }

    @Test
    void settingsFollowTheirFile(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("trust");
        Receiver receiver = new Receiver(TrustSource.fromEnvironment(Map.of("FAULTLOOM_TRUST_FILE", file.toString(), "FAULTLOOM_TRUST", BOTH)));
        assertEquals("trust file cannot be read", receiver.state(), "the file takes precedence");
        follow(receiver, file, BOTH + "\n", true, "keys");
        assertNotNull(receiver.accept(envelope(settings(BOTH), false, 5), 1000, 0));
        follow(receiver, file, BOTH + ";faults off", false, "keys");
        follow(receiver, file, BOTH + ";faults on\n\n", true, "keys");
        follow(receiver, file, BOTH + "\n" + "#".repeat(70_000), false, "trust file cannot be read");
        follow(receiver, file, BOTH, true, "keys");
        follow(receiver, file, BOTH + "\nnonsense, and " + SECRET, false, "line 4 of the trust settings");
        assertNull(receiver.accept(envelope(settings(BOTH), false, 5), 1000, 0), "inactive");
    }

    private static void follow(Receiver receiver, Path file, String text, boolean faults, String state) throws IOException, InterruptedException {
        Files.write(file, text.getBytes(UTF_8));
        long end = System.nanoTime() + 5_000_000_000L;
        while ((receiver.faultsEnabled() != faults || !receiver.state().equals(state)) && System.nanoTime() < end) {
            Thread.sleep(20);
        }
        assertEquals(faults + " " + state, receiver.faultsEnabled() + " " + receiver.state());
    }

    @Test
    void receiverWithoutSettingsIsInactive() throws Exception {
        Receiver inactive = new Receiver(TrustSource.fromEnvironment(Map.of()));
        assertNull(inactive.accept(new byte[3000], 1000, 0));
        assertNull(inactive.acceptHeader("!", 1000));
        assertFalse(inactive.faultsEnabled());
        assertEquals("no trust settings", inactive.state());
        assertEquals("line 1 of the trust settings", new Receiver(TrustSource.fromEnvironment(Map.of("FAULTLOOM_TRUST", "x"))).state());
    }

    @Test
    void threadsShareAKey() throws Exception {
        TrustSettings s = settings(BOTH);
        Receiver receiver = new Receiver(s);
        byte[] good = envelope(s, false, 5);
        byte[] bad = good.clone();
        bad[bad.length - 20] ^= 1;
        AtomicInteger wrong = new AtomicInteger();
        CountDownLatch done = new CountDownLatch(8);
        for (int t = 0; t < 8; t++) {
            new Thread(() -> {
                for (int i = 0; i < 5000; i++) {
                    try {
                        receiver.accept(good, 1000, 0);
                    } catch (WireError e) {
                        wrong.incrementAndGet();
                    }
                    try {
                        receiver.accept(bad, 1000, 0);
                        wrong.incrementAndGet();
                    } catch (WireError e) {
                        // expected
                    }
                }
                done.countDown();
            }).start();
        }
        done.await();
        assertEquals(0, wrong.get());
    }
}

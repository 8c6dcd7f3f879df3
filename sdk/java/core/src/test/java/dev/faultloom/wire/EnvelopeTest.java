package dev.faultloom.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.Seeded;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class EnvelopeTest {
    private static Envelope of(SignedPart s) throws WireError {
        byte[] passedOn = Envelope.encodeSignedPrefix(s.encode(), new byte[16]);
        return new Envelope(s, new HopPart(1, 0, 0, new long[0]), passedOn, passedOn.length);
    }

    @Test
    void envelopesSurviveARoundTripAndNoPrefixOfThemDoes() throws WireError {
        Random r = Seeded.random("envelopes");
        for (int i = 0; i < 200; i++) {
            SignedPart want = Samples.signed(r);
            long[] evidence = new long[Plan.counterCount(want.plan)];
            Arrays.setAll(evidence, j -> Seeded.number(r));
            byte[] raw = of(want).assemble(77, Accept.TAIL, 123, evidence);
            Envelope got = Envelope.decode(raw).decodeVerified();
            assertEquals(want.trace(), got.signed.trace());
            assertArrayEquals(want.run, got.signed.run);
            assertEquals(List.of(want.history, want.bridge, want.expires, want.keyId, want.environment),
                    List.of(got.signed.history, got.signed.bridge, got.signed.expires, got.signed.keyId, got.signed.environment));
            assertEquals(want.plan, got.signed.plan);
            assertEquals(want.plan != null, Envelope.carriesPlan(raw));
            assertEquals(List.of(77L, Accept.TAIL, 123L), List.of(got.hop.call, got.hop.accept, got.hop.receiveLimit));
            assertArrayEquals(evidence, got.hop.evidence);
            assertArrayEquals(raw, got.assemble(77, Accept.TAIL, 123, evidence));
            for (int n = 0; n < raw.length; n++) {
                byte[] prefix = Arrays.copyOf(raw, n);
                assertThrows(WireError.class, () -> Envelope.decode(prefix).decodeVerified());
            }
        }
    }

    @Test
    void oversizedEnvelopeIsNotEncoded() {
        Envelope roomy = new Envelope(null, null, new byte[2038], 2038);
        assertNotNull(roomy.assemble(1, 0, 0, null));
        assertNull(roomy.assemble(1, 0, 128, null));
        assertNull(roomy.assemble(1, 0, 0, new long[1]));
    }

    @Test
    void envelopeForABridgeHasAnotherCallAndAcceptsNothing() throws WireError {
        Envelope e = Envelope.decode(of(Samples.signed(new Random(1))).assemble(7, Accept.FIELD, 9, new long[0])).decodeVerified().forBridge(8);
        assertEquals(List.of(8L, Accept.NONE, 0L), List.of(e.hop.call, e.hop.accept, e.hop.receiveLimit));
    }

    @Test
    void plansHaveLimits() throws WireError {
        Fault fault = Fault.of(FaultKind.RESET);
        assertSame(WireError.TOO_MANY_FAULTS, refused(Collections.nCopies(65, fault)));
        assertSame(WireError.MALFORMED, refused(List.of()));
        assertSame(WireError.ENVELOPE_TOO_LARGE, refused(List.of(fault.callee("x".repeat(129)))));
        assertSame(WireError.ENVELOPE_TOO_LARGE,
                refused(List.of(fault.after(Collections.nCopies(9, new Prerequisite(Selector.ANY, 1))))));
        Fault[] many = new Fault[64];
        Arrays.setAll(many, i -> fault.selector(new Selector("a" + i, "b" + i, "c" + i)));
        assertSame(WireError.ENVELOPE_TOO_LARGE, refused(Arrays.asList(many)));
        assertNotNull(new SignedPart(true, false, 1, 1, null, 1, "k", "e", Collections.nCopies(64, fault)).encode());
    }

    private static WireError refused(List<Fault> plan) {
        return assertThrows(WireError.class, () -> new SignedPart(true, false, 1, 1, null, 1, "k", "e", plan).encode());
    }

    /** Decoding throws only the codes of the format; accepted envelopes survive another round trip. */
    @Test
    void randomBytesAreRejectedWithACode() throws WireError {
        Random r = Seeded.random("random envelopes");
        int accepted = 0;
        for (int i = 0; i < 50_000; i++) {
            byte[] raw = of(Samples.signed(r)).assemble(r.nextLong(), r.nextInt(4), r.nextInt(300), null);
            for (int n = r.nextInt(3); n > 0; n--) {
                raw[r.nextInt(raw.length)] = (byte) r.nextInt();
            }
            try {
                Envelope e = Envelope.decode(r.nextInt(4) == 0 ? Arrays.copyOf(raw, r.nextInt(raw.length + 3)) : raw).decodeVerified();
                byte[] again = e.assemble(e.hop.call, e.hop.accept, e.hop.receiveLimit, e.hop.evidence);
                assertEquals(e.signed.plan, Envelope.decode(again).decodeVerified().signed.plan);
                accepted++;
            } catch (WireError e) {
                assertNotNull(e.code());
            }
        }
        assertTrue(accepted > 1000, "too few were valid: " + accepted);
    }
}

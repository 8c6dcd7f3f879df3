package dev.faultloom.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.Locale;
import org.junit.jupiter.api.Test;

class BridgeTest {
    private static final String GOOD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    @Test
    void traceparentsAreParsedStrictly() {
        Traceparent t = Traceparent.parse(GOOD);
        assertEquals("0af7651916cd43dd8448eb211c80319c", Text.hex(t.traceHigh, t.traceLow));
        assertEquals("b7ad6b7169203331", Text.hex(t.parent));
        assertEquals(GOOD, Traceparent.format(t.traceHigh, t.traceLow, t.parent));
        assertNotNull(Traceparent.parse("cc" + GOOD.substring(2) + "-more"));
        for (String bad : new String[] {null, "", GOOD + "-more", "ff" + GOOD.substring(2), GOOD.toUpperCase(Locale.ROOT),
            GOOD.replace("b7ad6b7169203331", "0000000000000000"), GOOD.substring(1), "cc" + GOOD.substring(2) + "x",
            GOOD.replace("0af7651916cd43dd8448eb211c80319c", "00000000000000000000000000000000")}) {
            assertNull(Traceparent.parse(bad), bad);
        }
    }

    @Test
    void baggageKeepsOtherMembers() {
        byte[] e = {1, 2, 3};
        assertEquals("faultloom=AQID", baggage(null, e));
        assertEquals("a=1,b=2;p,faultloom=AQID", baggage("a=1, faultloom = x;y, ,b=2;p", e));
        assertNull(baggage("faultloom=old", new byte[8000]));
        assertEquals("a=1", baggage("a=1,faultloom=old", new byte[8000]));
    }

    private static String baggage(String present, byte[] envelope) {
        return Bridge.inject(null, present, envelope, 1, 2, 3).baggage;
    }

    @Test
    void anExtractedEnvelopeNeedsATraceparent() {
        BridgedEnvelope bridged = Bridge.extract(GOOD, "a=1, faultloom = AQID ;y,faultloom=zz");
        assertEquals("AQID", bridged.envelope);
        assertEquals("b7ad6b7169203331", Text.hex(bridged.call));
        assertNull(Bridge.extract(GOOD, "faultloom;x=1,xfaultloom=2"));
        assertNull(Bridge.extract(GOOD, null));
        assertNull(Bridge.extract("no traceparent", "faultloom=AQID"));
        assertNull(Bridge.extract(null, "faultloom=AQID"));
    }
}

package dev.faultloom.wire;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.Seeded;
import java.util.Arrays;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

class CarrierTest {
    /** Version, call id, and a segment up to its events. */
    private static final byte[] TAIL_HEAD = {1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 's', 0, 1};

    private static byte[] join(byte[] a, byte[] b) {
        return new Writer(a.length + b.length).bytes(a).bytes(b).toBytes();
    }

    @Test
    void fieldMatchesTheDocumentedLayout() {
        byte[] tag = new Writer(5).varint((long) Carrier.FIELD_NUMBER << 3 | 2).toBytes();
        byte[] want = join(tag, "\u000fhistory\0\0\0\u0015flm\u0001".getBytes(ISO_8859_1));
        assertArrayEquals(want, Carrier.encodeField("history".getBytes(ISO_8859_1)));
        assertEquals(0x15, Carrier.fieldLength(7));
        byte[] into = new byte[2 + want.length];
        Carrier.encodeField(into, 2, "history".getBytes(ISO_8859_1));
        assertArrayEquals(join(new byte[2], want), into);
        assertEquals(Bytes.u64(want, want.length - Carrier.FOOTER_BYTES), Carrier.footer(7));
    }

    @Test
    void appendedHistoryIsSplitOffExactly() {
        Random r = Seeded.random("carriers");
        for (int i = 0; i < 50_000; i++) {
            byte[] message = new byte[r.nextInt(20)];
            byte[] history = new byte[r.nextInt(4) == 0 ? 120 + r.nextInt(20) : r.nextInt(20)];
            r.nextBytes(message);
            r.nextBytes(history);
            byte[] whole = join(message, Carrier.encodeField(history));
            Carrier.Cut cut = Carrier.cutField(whole, 0, whole.length);
            assertEquals(message.length, cut.end);
            assertArrayEquals(history, Arrays.copyOfRange(whole, cut.historyFrom, cut.historyTo));
            byte[] tail = join(TAIL_HEAD, history);
            byte[] body = join(message, Carrier.encodeTail(tail));
            cut = Carrier.cutTail(body, 0, body.length);
            assertEquals(message.length, cut.end);
            assertArrayEquals(tail, Arrays.copyOfRange(body, cut.historyFrom, cut.historyTo));
            whole[whole.length - 1 - r.nextInt(Carrier.fieldLength(0))] ^= 1 << r.nextInt(8);
            cut = Carrier.cutField(whole, 0, whole.length);
            assertTrue(cut == null || cut.end >= 0 && cut.end <= cut.historyFrom && cut.historyFrom <= cut.historyTo);
        }
        assertNull(Carrier.cutField(new byte[0], 0, 0));
        assertNull(Carrier.cutTail("\0\0\0\u0001flm\u0001".getBytes(ISO_8859_1), 0, 8));
    }

    @Test
    void streamedContentTypesHaveNoTail() {
        for (String type : new String[] {"text/event-stream", "Application/X-NDJSON; charset=utf-8", " application/jsonl "}) {
            assertTrue(Carrier.isStreamed(Map.of("content-type", type)::get), type);
        }
        assertTrue(Carrier.isStreamed(Map.of("x-accel-buffering", "No")::get));
        assertFalse(Carrier.isStreamed(Map.of("content-type", "text/html", "x-accel-buffering", "yes")::get));
    }

    @Test
    void corruptingKeepsTheFirstHalf() {
        byte[] b = {1, 2, 3, 4, 5};
        Carrier.corruptBody(b, 1, 4);
        assertArrayEquals(new byte[] {1, 2, -1, -1, 5}, b);
    }
}

package dev.faultloom.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.Seeded;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class HistoryTest {
    @Test
    void truncatedHistoriesFitAndCanBeDecoded() throws WireError {
        Random r = Seeded.random("truncated histories");
        for (int i = 0; i < 150; i++) {
            byte[] whole = Samples.history(r, 5, 3);
            List<Event> events = History.decode(whole).segment.events;
            Event last = events.isEmpty() ? null : events.get(events.size() - 1);
            int before = -1;
            for (int limit = 0; limit <= whole.length; limit++) {
                byte[] cut = History.truncate(whole, limit);
                if (cut == null) {
                    assertEquals(-1, before, "what fits " + (limit - 1) + " bytes fits " + limit);
                    continue;
                }
                History got = History.decode(cut);
                assertTrue(cut.length <= limit && cut.length >= before);
                before = cut.length;
                if (limit < whole.length) {
                    assertTrue(got.segment.truncated);
                }
                if (last != null && last.kind == Event.SEND_RESPONSE) {
                    Event end = got.segment.events.get(got.segment.events.size() - 1);
                    assertEquals(List.of(last.kind, last.atUs, last.status), List.of(end.kind, end.atUs, end.status));
                }
            }
        }
    }

    @Test
    void joinedPiecesAreTheHistory() throws WireError {
        Random r = Seeded.random("pieces");
        for (int i = 0; i < 300; i++) {
            byte[] whole = Samples.history(r, 5, 3);
            whole[History.HEAD_BYTES] &= ~Segment.TRUNCATED;
            PieceJoiner join = new PieceJoiner();
            int offset = 0;
            while (r.nextInt(4) > 0 && offset < whole.length) {
                int n = r.nextInt(whole.length - offset + 1);
                byte[] piece = Piece.encode(whole[0], offset, whole, offset, n);
                assertTrue(Piece.isPiece(piece, 0, piece.length));
                assertTrue(join.add(piece, 0, piece.length));
                offset += n;
                byte[] sofar = join.history(5);
                if (sofar != null) {
                    assertTrue(offset == sofar.length && (sofar[History.HEAD_BYTES] & Segment.TRUNCATED) != 0);
                }
            }
            byte[] last = Piece.encodeLast(whole[0], whole, offset, Integer.MAX_VALUE);
            assertTrue(join.add(last, 0, last.length) && join.isComplete());
            assertArrayEquals(whole, join.history(5));
            assertNull(join.history(6));
            assertFalse(join.add(last, 0, last.length));
            assertArrayEquals(whole, join.history(5));
        }
    }

    @Test
    void truncatedLastPieceCanBeJoined() throws WireError {
        Random r = Seeded.random("cut pieces");
        int truncations = 0;
        for (int i = 0; i < 300; i++) {
            byte[] whole = Samples.history(r, 5, 3);
            EventIndex events = new EventIndex(whole, History.HEAD_BYTES, whole.length);
            int offset = r.nextBoolean() ? 0 : events.firstEvent();
            for (int limit = 0; limit < whole.length - offset + 3; limit++) {
                byte[] last = Piece.encodeLast(whole[0], whole, offset, limit);
                if (last == null) {
                    continue;
                }
                truncations++;
                PieceJoiner join = new PieceJoiner();
                byte[] first = Piece.encode(whole[0], 0, whole, 0, offset);
                if (offset > 0) {
                    join.add(first, 0, first.length);
                }
                assertTrue(last.length <= limit && join.add(last, 0, last.length) && !join.isComplete());
                assertTrue(History.decode(join.history(5)).segment.truncated);
            }
        }
        assertTrue(truncations > 1000, "too few were truncated: " + truncations);
    }

    @Test
    void malformedPieceEndsTheJoining() {
        byte[] whole = Samples.history(new Random(3), 5, 1);
        byte[] good = Piece.encode(whole[0], 0, whole, 0, whole.length);
        for (byte[] bad : new byte[][] {{}, {1}, {(byte) 0x81}, {(byte) 0x81, 8, 0}, {(byte) 0x81, 0, 1}, {(byte) 0x81, 0, (byte) 0x80}}) {
            PieceJoiner join = new PieceJoiner();
            assertFalse(join.add(bad, 0, bad.length));
            assertFalse(join.add(good, 0, good.length));
            assertNull(join.history(5));
        }
        PieceJoiner join = new PieceJoiner();
        assertTrue(join.add(Piece.encode(whole[0], 0, whole, 0, 11), 0, 14));
        assertNull(join.history(5), "half a head");
    }

    /** All decoders throw only the codes of the format. */
    @Test
    void randomBytesAreRejectedWithACode() {
        Random r = Seeded.random("random histories");
        int readable = 0;
        for (int i = 0; i < 30_000; i++) {
            byte[] b = Samples.history(r, 5, 2);
            for (int n = r.nextInt(3); n > 0; n--) {
                b[r.nextInt(b.length)] = (byte) r.nextInt();
            }
            b = r.nextInt(4) == 0 ? Arrays.copyOf(b, r.nextInt(b.length + 3)) : b;
            int limit = r.nextInt(100);
            try {
                History h = History.decode(b);
                readable++;
                byte[] cut = History.truncate(b, limit);
                if (cut != null) {
                    assertTrue(cut.length <= Math.max(limit, 0));
                    History.decode(cut);
                }
                assertNotNull(new OtlpRequest().add(1, 2, true, h).json());
                byte[] last = Piece.encodeLast(b[0], b, 0, limit);
                assertTrue(last == null || last.length <= limit);
            } catch (WireError e) {
                assertNotNull(e.code());
            }
            PieceJoiner join = new PieceJoiner();
            join.add(b, 0, b.length);
            join.history(5);
        }
        assertTrue(readable > 3000, "too few were valid: " + readable);
    }

    @Test
    void depthAndNumberOfEventsAreBounded() throws WireError {
        assertNotNull(History.decode(nested(63)));
        Segment deepest = History.decode(nested(64)).segment;
        for (int depth = 1; depth < 64; depth++) {
            deepest = deepest.events.get(1).child;
        }
        assertTrue(deepest.events.get(1).gap && deepest.events.get(1).child == null);
        Writer many = new Writer(1 << 20).u8(1).u64(1);
        Segment.writePrefix(many, 0, "s", "", 0);
        for (int i = 0; i < History.MAX_EVENTS; i++) {
            many.u8(Event.SEND_REQUEST).varint(0).varint(i == 0 ? 0 : 1);
            if (i == 0) {
                many.string("x");
            }
            many.varint(1);
        }
        assertEquals(History.MAX_EVENTS, History.decode(many.toBytes()).segment.events.size());
        many.u8(Event.SEND_REQUEST).varint(0).varint(1).varint(1);
        assertCode(WireError.MALFORMED, many.toBytes());
        assertCode(WireError.MALFORMED, new byte[History.MAX_BYTES + 1]);
        assertCode(WireError.UNSUPPORTED_VERSION, new byte[20]);
    }

    private static byte[] nested(int depth) {
        byte[] inner = {0, 1, 's', 0, 0};
        for (int i = 0; i < depth; i++) {
            inner = new Writer(64).bytes(new byte[] {0, 1, 's', 0, 0, Event.SEND_REQUEST, 0, 0, 1, 'x', 1,
                Event.RECV_RESPONSE | Event.TAG_CHILD, 0, 1, 0}).varint(inner.length).bytes(inner).toBytes();
        }
        return new Writer(64).u8(1).u64(1).bytes(inner).toBytes();
    }

    private static void assertCode(WireError wanted, byte[] history) {
        try {
            History.decode(history);
        } catch (WireError e) {
            assertEquals(wanted, e);
            return;
        }
        throw new AssertionError("was decoded");
    }
}

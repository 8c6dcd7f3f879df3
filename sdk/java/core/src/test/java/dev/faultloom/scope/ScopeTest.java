package dev.faultloom.scope;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.wire.Accept;
import dev.faultloom.wire.CallId;
import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Event;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.History;
import dev.faultloom.wire.Join;
import dev.faultloom.wire.Kind;
import dev.faultloom.wire.Segment;
import dev.faultloom.wire.Writer;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class ScopeTest {
    private static final long ROOT = 7;

    /** The history of a callee, of at least so many bytes. */
    static byte[] child(long number, int bytes) {
        Writer out = new Writer(256).u8(1).u64(CallId.of(ROOT, number));
        Segment.writePrefix(out, 0, "back", "n".repeat(100), 1);
        while (out.length() < bytes) {
            out.u8(Event.SEND_REQUEST).u8(0).u8(0).str("x".repeat(200)).u8(0).str("y".repeat(200));
        }
        return out.u8(Event.SEND_RESPONSE).u8(0).u8(0).toBytes();
    }

    @Test
    void threadsShareAScope() throws Exception {
        Scope s = Scopes.begin(Accept.NONE, 0, Fault.of(Kind.STATUS).arg(5).maxFires(10));
        Set<Long> ids = ConcurrentHashMap.newKeySet();
        AtomicInteger fired = new AtomicInteger();
        CountDownLatch done = new CountDownLatch(20);
        for (int t = 0; t < 20; t++) {
            String name = "/a/" + t;
            new Thread(() -> {
                for (int i = 0; i < 50; i++) {
                    Call c = s.send(s.now(), false, "back", name, Accept.NONE, 0);
                    s.reply(s.now(), c.number, 0, child(c.number, 0), false);
                    s.reply(s.now(), c.number, 99, null, false); // a second end is none
                    ids.add(c.id);
                    fired.addAndGet(c.fault != null ? 1 : 0);
                }
                done.countDown();
            }).start();
        }
        done.await();
        History h = History.decode(s.finish(s.now(), 0, ""));
        assertEquals(List.of(1000, 10, 2001), List.of(ids.size(), fired.get(), h.segment.events.size()));
    }

    @Test
    void itsHistorySaysThatItTakesFieldsOnlyIfTold() throws Exception {
        for (boolean told : new boolean[] {true, false}) {
            Scope s = Scopes.begin(Accept.NONE, 0);
            if (told) {
                s.takesField();
            }
            byte[] history = s.finish(9, 0, "");
            assertEquals(told, History.takesField(history, 0, history.length));
            s.takesField(); // too late, and harmless
        }
    }

    @Test
    void aDiscardedScopeLeavesNothing() {
        Scope s = Scopes.begin(Accept.NONE, 0);
        s.send(1, false, "b", "/x", Accept.NONE, 0);
        s.discard();
        assertNull(s.send(2, false, "b", "/x", Accept.NONE, 0));
        assertNull(s.finish(3, 0, ""));
    }

    @Test
    void anAnsweredScopeStaysOutOfTheWay() throws Exception {
        Scope s = Scopes.begin(Accept.NONE, 0);
        Call a = s.send(1, false, "b", "/x", Accept.NONE, 0);
        Call b = s.send(2, false, "b", "/x", Accept.NONE, 0);
        s.begun(b.number, 206);
        History h = History.decode(s.finish(9, 0, "GET /{x}"));
        assertEquals("GET /{x}", h.segment.name);
        assertEquals(4, h.segment.events.size());
        assertTrue(h.segment.events.get(2).gap && h.segment.events.get(2).status == 206);
        s.reply(10, a.number, 0, null, false);
        s.begun(a.number, 200);
        assertNull(s.send(11, false, "b", "/x", Accept.NONE, 0));
        assertNull(s.finish(12, 0, ""));
        assertNull(s.finishLater(12, 0));
        assertNull(s.nextPiece(0, 1 << 20));
        assertNull(s.lastPiece(12, 0, ""));
    }

    @Test
    void aStreamThatIsOpenAtTheAnswerIsRecordedAsCancelled() throws Exception {
        Scope s = Scopes.begin(Accept.NONE, 0);
        Call a = s.sendGrpc("b", "/x", 0);
        Call b = s.sendGrpc("b", "/x", 0);
        Call c = s.sendGrpc("b", "/x", 0);
        s.opened(a.number, () -> child(a.number, 0));
        s.opened(b.number, () -> null);
        s.opened(c.number, () -> child(c.number, 0));
        s.reply(1, c.number, 0, null, false);
        History h = History.decode(s.finish(9, 0, ""));
        assertEquals(7, h.segment.events.size());
        Event first = h.segment.events.get(4);
        assertTrue(first.kind == Event.CALL_FAILED && first.call == 1 && first.status == 1 && first.child != null && !first.gap);
        Event second = h.segment.events.get(5);
        assertTrue(second.kind == Event.CALL_FAILED && second.call == 2 && second.status == 1 && second.child == null && second.gap);
    }

    @Test
    void aHistoryOfSomebodyElseIsAGap() throws Exception {
        Scope s = Scopes.begin(Accept.NONE, 0);
        for (byte[] foreign : new byte[][] {child(99, 0), {}, {2}, {1, 2, 3}}) {
            Call c = s.send(1, true, "b", "GET /x", Accept.TAIL, 0);
            s.reply(2, c.number, 200, foreign, false);
        }
        Call c = s.send(1, true, "b", "GET /x", Accept.TAIL, 0);
        byte[] inside = new Writer(64).u8(77).bytes(child(c.number, 0)).u8(78).toBytes();
        s.reply(2, c.number, 200, inside, 1, inside.length - 1);
        List<Event> events = History.decode(s.finish(3, 0, "")).segment.events;
        for (int i = 1; i < 8; i += 2) {
            assertTrue(events.get(i).gap && events.get(i).child == null);
        }
        assertTrue(!events.get(9).gap && events.get(9).child.service.equals("back"));
    }

    /** What would make the history unreadable is left out, and the segment says so. */
    @Test
    void aHistoryStaysReadable() throws Exception {
        Scope s = Scopes.begin(Accept.NONE, 0);
        for (int i = 1; i <= 6; i++) {
            s.send(1, false, "b", "/x", Accept.NONE, 0);
            s.reply(1, i, 0, child(i, 1 << 20), false);
        }
        byte[] b = s.finish(2, 0, "");
        History h = History.decode(b);
        assertTrue(h.segment.truncated && b.length <= History.MAX_BYTES && h.segment.events.get(11).gap);

        Scope many = Scopes.begin(Accept.NONE, 0);
        for (int i = 1; i <= 60_000; i++) {
            many.send(1, false, "b", "/x", Accept.NONE, 0);
            many.reply(1, i, 0, null, false);
        }
        assertTrue(History.decode(many.finish(2, 0, "")).segment.truncated);

        Scope names = Scopes.begin(Accept.NONE, 0);
        for (int i = 1; i <= 22_000; i++) {
            names.send(1, false, "p".repeat(300), "/" + i + "é".repeat(300), Accept.NONE, 0);
        }
        assertTrue(History.decode(names.finish(2, 0, "")).segment.truncated);
    }

    @Test
    void fieldAndHistoryAreTheSameBytes() throws Exception {
        for (String service : new String[] {"front", "fränt"}) {
            byte[] history = small(service).history();
            byte[] field = small(service).field();
            assertEquals(small(service).fieldLength(), field.length);
            Carrier.Cut cut = Carrier.cutField(field, 0, field.length);
            assertEquals(0, cut.end);
            assertTrue(Arrays.equals(history, 0, history.length, field, cut.historyFrom, cut.historyTo));
            assertEquals(service, History.decode(history).segment.service);
        }
        Ended once = small("front");
        assertNotNull(once.history());
        assertNull(once.field());
    }

    private static Ended small(String service) {
        Scope s = Scopes.process(service).begin(Scopes.envelope(Accept.FIELD, 1 << 20, List.of()), 1_000_000);
        s.send(1, true, "b", "GET /é", Accept.TAIL, 0);
        return s.finishLater(5, 0);
    }

    @Test
    void aStreamsHistoryLeavesInPieces() throws Exception {
        Scope s = Scopes.begin(Accept.FIELD, 1000);
        Join join = new Join();
        add(join, s.nextPiece(10, 1 << 20));
        assertNull(s.nextPiece(10, 1 << 20), "nothing is new");
        s.send(1, false, "b", "/x", Accept.NONE, 0);
        assertNull(s.nextPiece(990, 1 << 20), "no room at the caller");
        assertNull(s.nextPiece(10, 12), "no room at the callee");
        add(join, s.nextPiece(10, 1 << 20));
        s.reply(2, 1, 0, child(1, 5000), false);
        assertNull(s.nextPiece(10, 1 << 20), "too large, waits for the end");
        assertFalse(join.complete());
        assertEquals(1, History.decode(join.history(ROOT)).segment.events.size());
        add(join, s.lastPiece(3, 0, ""));
        History h = History.decode(join.history(ROOT));
        assertEquals(3, h.segment.events.size());
        assertTrue(h.segment.truncated && h.segment.events.get(1).gap, "the child did not fit into the trailer");
    }

    private static void add(Join join, byte[] piece) {
        assertTrue(join.add(piece, 0, piece.length));
    }

    @Test
    void aCallerWithoutFieldsGetsTheWholeStreamAtItsEnd() throws Exception {
        Scope s = Scopes.begin(Accept.NONE, 0);
        assertNull(s.nextPiece(10, 1 << 20));
        Join join = new Join();
        add(join, s.lastPiece(3, 5, ""));
        assertTrue(join.complete());
        assertEquals(5, History.decode(join.history(ROOT)).segment.events.get(0).status);
    }
}

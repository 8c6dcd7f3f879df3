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
import dev.faultloom.wire.FaultKind;
import dev.faultloom.wire.History;
import dev.faultloom.wire.Piece;
import dev.faultloom.wire.PieceJoiner;
import dev.faultloom.wire.Segment;
import dev.faultloom.wire.Writer;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

class ScopeTest {
    private static final long ROOT = 7;

    /** The history of a callee, of at least {@code bytes} bytes. */
    static byte[] child(long number, int bytes) {
        Writer out = new Writer(256).u8(1).u64(CallId.derive(ROOT, number));
        Segment.writePrefix(out, 0, "back", "n".repeat(100), 1);
        while (out.length() < bytes) {
            out.u8(Event.SEND_REQUEST).u8(0).u8(0).string("x".repeat(200)).u8(0).string("y".repeat(200));
        }
        return out.u8(Event.SEND_RESPONSE).u8(0).u8(0).toBytes();
    }

    @Test
    void threadsShareAScope() throws Exception {
        Scope s = Scopes.begin(Accept.NONE, 0, Fault.of(FaultKind.STATUS).arg(5).maxFires(10));
        Set<Long> ids = ConcurrentHashMap.newKeySet();
        AtomicInteger fired = new AtomicInteger();
        CountDownLatch done = new CountDownLatch(20);
        for (int t = 0; t < 20; t++) {
            String name = "/a/" + t;
            new Thread(() -> {
                for (int i = 0; i < 50; i++) {
                    OutgoingCall c = s.beginCall(s.now(), false, "back", name, Accept.NONE, 0);
                    s.recordReply(s.now(), c.number, 0, child(c.number, 0), false);
                    s.recordReply(s.now(), c.number, 99, null, false); // ignored: the call has ended
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
    void historyAnnouncesFieldsOnlyIfRequested() throws Exception {
        for (boolean announced : new boolean[] {true, false}) {
            Scope s = Scopes.begin(Accept.NONE, 0);
            if (announced) {
                s.announceField();
            }
            byte[] history = s.finish(9, 0, "");
            assertEquals(announced, History.takesField(history, 0, history.length));
            s.announceField(); // ignored: the scope is finished
        }
    }

    @Test
    void abandonedScopeReturnsNoHistory() {
        Scope s = Scopes.begin(Accept.NONE, 0);
        s.beginCall(1, false, "b", "/x", Accept.NONE, 0);
        s.abandon();
        assertNull(s.beginCall(2, false, "b", "/x", Accept.NONE, 0));
        assertNull(s.finish(3, 0, ""));
    }

    @Test
    void finishedScopeRecordsNothing() throws Exception {
        Scope s = Scopes.begin(Accept.NONE, 0);
        OutgoingCall a = s.beginCall(1, false, "b", "/x", Accept.NONE, 0);
        OutgoingCall b = s.beginCall(2, false, "b", "/x", Accept.NONE, 0);
        s.replyStarted(b.number, 206);
        History h = History.decode(s.finish(9, 0, "GET /{x}"));
        assertEquals("GET /{x}", h.segment.name);
        assertEquals(4, h.segment.events.size());
        assertTrue(h.segment.events.get(2).gap && h.segment.events.get(2).status == 206);
        s.recordReply(10, a.number, 0, null, false);
        s.replyStarted(a.number, 200);
        assertNull(s.beginCall(11, false, "b", "/x", Accept.NONE, 0));
        assertNull(s.finish(12, 0, ""));
        assertNull(s.finishLater(12, 0));
        assertNull(s.nextPiece(0, 1 << 20));
        assertNull(s.lastPiece(12, 0, ""));
    }

    @Test
    void streamThatIsOpenAtTheEndIsRecordedAsCanceledWithItsPieces() throws Exception {
        Scope s = Scopes.begin(Accept.NONE, 0);
        OutgoingCall a = s.beginGrpcCall(false, "b", "/x", 0);
        OutgoingCall b = s.beginGrpcCall(false, "b", "/x", 0);
        OutgoingCall c = s.beginGrpcCall(false, "b", "/x", 0);
        for (OutgoingCall call : List.of(a, b, c)) {
            s.openStream(call.number);
        }
        addPiece(s, a);
        addPiece(s, c);
        s.recordReply(1, c.number, 0, null, true);
        addPiece(s, c); // too late: ignored
        s.addPiece(99, new byte[] {1}); // no such call
        History h = History.decode(s.finish(9, 0, ""));
        addPiece(s, b);
        assertEquals(7, h.segment.events.size());
        Event replied = h.segment.events.get(3);
        assertTrue(replied.kind == Event.RECV_RESPONSE && replied.call == 3 && replied.child != null && !replied.gap);
        assertTrue(replied.child.truncated, "the last piece is missing");
        Event first = h.segment.events.get(4);
        assertTrue(first.kind == Event.CALL_FAILED && first.call == 1 && first.status == 1 && first.child != null && !first.gap);
        Event second = h.segment.events.get(5);
        assertTrue(second.kind == Event.CALL_FAILED && second.call == 2 && second.status == 1 && second.child == null && second.gap);
    }

    private static void addPiece(Scope s, OutgoingCall call) {
        byte[] history = child(call.number, 0);
        s.addPiece(call.number, Piece.encode(History.VERSION, 0, history, 0, history.length));
    }

    @Test
    void historyOfAnotherCallIsAGap() throws Exception {
        Scope s = Scopes.begin(Accept.NONE, 0);
        for (byte[] foreign : new byte[][] {child(99, 0), {}, {2}, {1, 2, 3}}) {
            OutgoingCall c = s.beginCall(1, true, "b", "GET /x", Accept.TAIL, 0);
            s.recordReply(2, c.number, 200, foreign, false);
        }
        OutgoingCall c = s.beginCall(1, true, "b", "GET /x", Accept.TAIL, 0);
        byte[] inside = new Writer(64).u8(77).bytes(child(c.number, 0)).u8(78).toBytes();
        s.recordReply(2, c.number, 200, inside, 1, inside.length - 1);
        List<Event> events = History.decode(s.finish(3, 0, "")).segment.events;
        for (int i = 1; i < 8; i += 2) {
            assertTrue(events.get(i).gap && events.get(i).child == null);
        }
        assertTrue(!events.get(9).gap && events.get(9).child.service.equals("back"));
    }

    /** Events that would make the history unreadable are left out, and the segment is marked as truncated. */
    @Test
    void historyThatWouldBeUnreadableIsTruncated() throws Exception {
        Scope s = Scopes.begin(Accept.NONE, 0);
        for (int i = 1; i <= 6; i++) {
            s.beginCall(1, false, "b", "/x", Accept.NONE, 0);
            s.recordReply(1, i, 0, child(i, 1 << 20), false);
        }
        byte[] b = s.finish(2, 0, "");
        History h = History.decode(b);
        assertTrue(h.segment.truncated && b.length <= History.MAX_BYTES && h.segment.events.get(11).gap);

        Scope many = Scopes.begin(Accept.NONE, 0);
        for (int i = 1; i <= 60_000; i++) {
            many.beginCall(1, false, "b", "/x", Accept.NONE, 0);
            many.recordReply(1, i, 0, null, false);
        }
        assertTrue(History.decode(many.finish(2, 0, "")).segment.truncated);

        Scope names = Scopes.begin(Accept.NONE, 0);
        for (int i = 1; i <= 22_000; i++) {
            names.beginCall(1, false, "p".repeat(300), "/" + i + "é".repeat(300), Accept.NONE, 0);
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
        PendingHistory once = small("front");
        assertNotNull(once.history());
        assertNull(once.field());
    }

    private static PendingHistory small(String service) {
        Scope s = Scopes.process(service).beginScope(Scopes.envelope(Accept.FIELD, 1 << 20, List.of()), 1_000_000);
        s.beginCall(1, true, "b", "GET /é", Accept.TAIL, 0);
        return s.finishLater(5, 0);
    }

    @Test
    void historyOfAStreamIsSentInPieces() throws Exception {
        Scope s = Scopes.begin(Accept.FIELD, 1000);
        PieceJoiner join = new PieceJoiner();
        add(join, s.nextPiece(10, 1 << 20));
        assertNull(s.nextPiece(10, 1 << 20), "no new events");
        s.beginCall(1, false, "b", "/x", Accept.NONE, 0);
        assertNull(s.nextPiece(990, 1 << 20), "the caller's limit");
        assertNull(s.nextPiece(10, 12), "the callee's limit");
        add(join, s.nextPiece(10, 1 << 20));
        s.recordReply(2, 1, 0, child(1, 5000), false);
        assertNull(s.nextPiece(10, 1 << 20), "too large: sent at the end");
        assertFalse(join.isComplete());
        assertEquals(1, History.decode(join.history(ROOT)).segment.events.size());
        add(join, s.lastPiece(3, 0, ""));
        History h = History.decode(join.history(ROOT));
        assertEquals(3, h.segment.events.size());
        assertTrue(h.segment.truncated && h.segment.events.get(1).gap, "the child does not fit into the trailer");
    }

    private static void add(PieceJoiner join, byte[] piece) {
        assertTrue(join.add(piece, 0, piece.length));
    }

    @Test
    void callerThatAcceptsNoFieldsGetsTheHistoryInTheTrailer() throws Exception {
        Scope s = Scopes.begin(Accept.NONE, 0);
        assertNull(s.nextPiece(10, 1 << 20));
        PieceJoiner join = new PieceJoiner();
        add(join, s.lastPiece(3, 5, ""));
        assertTrue(join.isComplete());
        assertEquals(5, History.decode(join.history(ROOT)).segment.events.get(0).status);
    }

    @Test
    void scopeRecordsTheCallsWithoutAScopeThatWereSentDuringItsLife() throws Exception {
        UnscopedCalls.addGrpc("before:1", "/a.B/C");
        Scope s = Scopes.begin(Accept.NONE, 0);
        for (int i = 0; i < 70; i++) {
            UnscopedCalls.addHttp("b:1", "GET", "/x/" + i + "?y=z");
        }
        List<Event> events = History.decode(s.finish(s.now(), 0, "")).segment.events;
        assertEquals(3, events.size());
        assertEquals("64 GET /x/{id} b:1", unscoped(events.get(0)));
        assertTrue(events.get(0).http);
        assertEquals("6 other other", unscoped(events.get(1)));
        Scope later = Scopes.begin(Accept.NONE, 0);
        assertEquals(1, History.decode(later.finish(later.now(), 0, "")).segment.events.size());
    }

    @Test
    void otherScopesCountInheritedCalls() throws Exception {
        Scope first = Scopes.begin(Accept.NONE, 0);
        Scope second = Scopes.begin(Accept.NONE, 0);
        inherit(first, "GET /both/17", 2);
        inherit(second, "GET /own", 1);
        Scope third = Scopes.begin(Accept.NONE, 0);
        first.beginCall(first.now(), true, "b", "GET /context", Accept.NONE, 0);
        assertEquals(List.of(), counted(third));
        assertEquals(List.of("2 GET /both/{id} b"), counted(second));
        assertEquals(List.of("1 GET /own b"), counted(first));

        first = Scopes.begin(Accept.NONE, 0);
        second = Scopes.begin(Accept.NONE, 0);
        inherit(first, "GET /early", 64);
        inherit(second, "GET /late", 1);
        inherit(first, "GET /late", 10);
        assertEquals(List.of("1 GET /late b"), counted(first));
        assertEquals(List.of("53 GET /early b", "10 GET /late b", "11 other other"), counted(second));
    }

    private static void inherit(Scope scope, String name, int calls) {
        for (int i = 0; i < calls; i++) {
            assertNotNull(scope.beginInheritedCall(scope.now(), true, "b", name, Accept.NONE, 0));
        }
    }

    /** Finishes a scope and returns the calls that it has counted. */
    private static List<String> counted(Scope scope) throws Exception {
        List<Event> events = History.decode(scope.finish(scope.now(), 0, "")).segment.events;
        return events.stream().filter(e -> e.kind == Event.UNSCOPED_CALLS).map(ScopeTest::unscoped).collect(Collectors.toList());
    }

    private static String unscoped(Event event) {
        assertEquals(Event.UNSCOPED_CALLS, event.kind);
        return event.count + " " + event.name + " " + event.peer;
    }
}

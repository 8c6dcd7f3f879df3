package dev.faultloom.scope;

import dev.faultloom.wire.Accept;
import dev.faultloom.wire.CallId;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Event;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.History;
import dev.faultloom.wire.Names;
import dev.faultloom.wire.Segment;
import dev.faultloom.wire.Text;
import dev.faultloom.wire.WireError;
import dev.faultloom.wire.Writer;
import java.time.Instant;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;

/**
 * The work done to answer one call. Times are µs since its start, by the monotonic clock; see {@link #now}.
 *
 * <p>The history is written once, event by event, into one buffer in its final form; histories of callees are appended as
 * they came and are looked into only if there is a plan to decide. Safe for concurrent use, never blocks, throws nothing.
 */
public final class Scope {
    private static final int CANCELLED = 1; // gRPC

    /** Scopes of this process that have still to answer. One that never does only makes others look for what is not there. */
    static final AtomicInteger LIVE = new AtomicInteger();

    private final Process process;
    private final Envelope envelope;
    private final long startNanos;
    private final long startUs;
    private final Export export;
    private final Evidence evidence; // null without a plan
    private Pieces pieces; // of a stream whose first piece has left, else null
    private Recording recording = Recording.take(); // null once the scope has answered

    Scope(Process process, Envelope envelope, long startNanos, long startUs, Export export) {
        this.process = process;
        this.envelope = envelope;
        this.startNanos = startNanos;
        this.startUs = startUs;
        this.export = export;
        LIVE.incrementAndGet();
        if (envelope.signed.plan == null) {
            evidence = null;
        } else {
            evidence = new Evidence(envelope.signed.plan, envelope.hop.evidence);
            on();
        }
    }

    /** Whether any scope of this process has still to answer. Without one nothing that is sent belongs to a scope. */
    public static boolean anyLive() {
        return LIVE.get() != 0;
    }

    static long wallUs() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }

    /** Whose work this is. */
    public Process process() {
        return process;
    }

    /** The accepted envelope. */
    public Envelope envelope() {
        return envelope;
    }

    /** The time since the scope's start in µs. */
    public long now() {
        return (System.nanoTime() - startNanos) / 1000;
    }

    /** Whether the reply brings the history back. Without that, whatever ends this scope returns null. */
    public boolean answers() {
        return envelope.signed.history && export == null;
    }

    /** Reads the switch; that it was off once stays on record. */
    private boolean on() {
        if (process.receiver().faultsOn()) {
            return true;
        }
        recording.flags |= Segment.FAULTS_OFF;
        return false;
    }

    /** Notes that further requests of the answered method may have their envelope in a field. */
    public synchronized void takesField() {
        if (recording != null) {
            recording.flags |= Segment.TAKES_FIELD;
        }
    }

    /** Ends this scope without a trace: another one answers the call. */
    public synchronized void discard() {
        if (recording != null) {
            recording.release();
            over();
        }
    }

    private void over() {
        recording = null;
        LIVE.decrementAndGet();
    }

    /** {@link #send(long, boolean, String, String, int, long)} for gRPC. {@code limit} 0: no field may come back. */
    public Call sendGrpc(String authority, String method, long limit) {
        return send(now(), false, process.peer(authority), method, limit > 0 && wantsHistories() ? Accept.FIELD : Accept.NONE, limit);
    }

    /** {@link #send(long, boolean, String, String, int, long)} for HTTP. {@code tail}: the reply may have one. */
    public Call sendHttp(String authority, String method, String target, boolean tail) {
        return send(now(), true, process.peer(authority), Names.raw(method, target), tail && wantsHistories() ? Accept.TAIL : Accept.NONE, 0);
    }

    /** Whether the histories of callees are wanted. */
    private boolean wantsHistories() {
        return envelope.signed.history;
    }

    /**
     * Decides about a send and records it. Null when the scope has already answered: then the request is to be sent as if
     * there were no scope.
     *
     * @param peer name of the callee, or its authority
     * @param name gRPC method, or raw {@code METHOD /path}
     * @param accept bits of {@link Accept}
     * @param limit receive limit in bytes, 0: unknown
     */
    public Call send(long at, boolean http, String peer, String name, int accept, long limit) {
        String recordedName = named(http ? Names.normal(name) : name);
        String recordedPeer = named(peer);
        synchronized (this) {
            if (recording == null) {
                return null;
            }
            int number = recording.sentCount() + 1;
            int tag = Event.SEND_REQUEST | (http ? Event.HTTP : 0);
            int index = -1;
            if (evidence != null) {
                index = evidence.decide(process.service(), peer, name, on());
                tag |= index >= 0 ? Event.FAULT : 0;
            }
            recording.send(tag, at, peer, name, recordedName, recordedPeer, index);
            if (evidence != null) {
                evidence.count(true, process.service(), peer, name);
            }
            long id = CallId.of(envelope.hop.call, number);
            byte[] out = envelope.assemble(id, accept, limit, evidence == null ? null : evidence.counters());
            Fault fault = index < 0 ? null : envelope.signed.plan.get(index);
            return new Call(number, id, index, fault, out, envelope);
        }
    }

    private static String named(String s) {
        return s.isEmpty() ? "unknown" : Text.cut(s, Names.MAX_NAME_BYTES);
    }

    /**
     * Records that the reply of a call arrived. A history is taken once per call and only if it answers this call; somebody
     * else's (a caching proxy hands such back) is a gap.
     *
     * @param status gRPC code or HTTP status
     * @param history what came back, or null; not kept
     * @param gap without a history: the callee may have run
     */
    public void reply(long at, int call, long status, byte[] history, boolean gap) {
        end(Event.RECV_RESPONSE, at, call, status, history, 0, history == null ? 0 : history.length, gap);
    }

    /** {@link #reply(long, int, long, byte[], boolean)} with the history that lies in a larger array. */
    public void reply(long at, int call, long status, byte[] array, int from, int to) {
        end(Event.RECV_RESPONSE, at, call, status, array, from, to, true);
    }

    /** Records that a call ended without a reply; the status is a gRPC code. */
    public void failed(long at, int call, long status, byte[] history, boolean gap) {
        end(Event.CALL_FAILED, at, call, status, history, 0, history == null ? 0 : history.length, gap);
    }

    /** Notes that a reply has begun whose history is still to come. If it never does, a gap is recorded at the answer. */
    public synchronized void begun(int call, long status) {
        Recording.Sent sent = recording == null ? null : recording.sent(call);
        if (sent != null) {
            sent.begun = true;
            sent.status = status;
        }
    }

    /**
     * Notes that a call is a stream. If it is still open at the answer, it is recorded as cancelled then, with what
     * {@code history} returns: the history so far, or null. That is called under the scope's lock.
     */
    public synchronized void opened(int call, Supplier<byte[]> history) {
        Recording.Sent sent = recording == null ? null : recording.sent(call);
        if (sent != null) {
            sent.open = history;
        }
    }

    private synchronized void end(int kind, long at, int number, long status, byte[] b, int from, int to, boolean gap) {
        Recording.Sent sent = recording == null ? null : recording.sent(number);
        if (sent == null || sent.ended) {
            return;
        }
        sent.ended = true;
        int child = 0; // bytes of the callee's segment
        if (b != null) {
            gap = true;
            try {
                if (History.callOf(b, from, to) == CallId.of(envelope.hop.call, number)) {
                    child = to - from - History.HEAD_BYTES;
                    gap = false;
                }
            } catch (WireError e) {
                // not a history: the gap says so
            }
        }
        boolean embed = b != null && !gap;
        if (evidence != null) {
            if (kind == Event.RECV_RESPONSE) {
                evidence.count(false, process.service(), sent.peer, sent.name);
            }
            if (embed) {
                try {
                    evidence.walk(Segment.decode(b, to - child, to));
                } catch (WireError e) {
                    // it is embedded all the same: that the whole cannot be read tells more than a gap
                }
            }
        }
        recording.end(kind, at, number, status, embed ? b : null, to - child, child, gap);
    }

    /**
     * Records the answer and returns the whole history, or null: nothing goes back, or it was finished before. The scope
     * records and decides nothing more.
     *
     * @param name the call as this service knows it (an HTTP route template), or empty: the same as the caller's
     */
    public byte[] finish(long at, long status, String name) {
        Ended ended = end(at, status, name);
        return ended == null ? null : ended.history();
    }

    /** {@link #finish} for a history whose carrier is not known yet, so that it is written once and in its place; or null. */
    public Ended finishLater(long at, long status) {
        return end(at, status, "");
    }

    private Ended end(long at, long status, String name) {
        Ended ended;
        synchronized (this) {
            if (recording == null) {
                return null;
            }
            close(at, status);
            ended = new Ended(envelope.hop.call, process.service(), Text.cut(name, Names.MAX_NAME_BYTES), startUs, recording);
            over();
        }
        if (answers()) {
            return ended;
        }
        export(ended);
        return null;
    }

    private void export(Ended ended) {
        if (export != null && export.exporter != null && envelope.signed.history) {
            export.exporter.offer(envelope.signed.traceHigh, envelope.signed.traceLow, export.hasParent, ended.history());
        } else {
            ended.drop();
        }
    }

    private void close(long at, long status) {
        for (int number = 1; number <= recording.sentCount(); number++) {
            Recording.Sent sent = recording.sent(number);
            if (sent.open != null && !sent.ended) {
                byte[] history = sent.open.get();
                end(Event.CALL_FAILED, at, number, CANCELLED, history, 0, history == null ? 0 : history.length, true);
            } else if (sent.begun && !sent.ended) {
                end(Event.RECV_RESPONSE, at, number, sent.status, null, 0, 0, true);
            }
        }
        recording.answer(at, status);
    }

    /**
     * What is new since the last piece, to ride on a reply message of a stream; null: nothing is, or there is no room, then
     * it waits for the next message.
     *
     * @param messageBytes the message's length
     * @param sendLimit what message and field may have together on this side; the caller's limit is known here
     */
    public synchronized byte[] nextPiece(long messageBytes, long sendLimit) {
        long callers = envelope.hop.receiveLimit;
        if (recording == null || !answers() || (envelope.hop.accept & Accept.FIELD) == 0 || callers == 0) {
            return null;
        }
        Pieces of = pieces != null ? pieces : new Pieces(head(""));
        long room = Math.min(callers < 0 ? Long.MAX_VALUE : callers, sendLimit) - messageBytes;
        byte[] piece = of.next(recording.events, room);
        if (piece != null) {
            pieces = of;
        }
        return piece;
    }

    /** {@link #lastPiece(long, long, String)} for a call that has the caller's name. */
    public byte[] lastPiece(long at, long status) {
        return lastPiece(at, status, "");
    }

    /**
     * Records the end of a stream's handler and returns the last piece, for the trailer, or null: nothing goes back, or not
     * even the answer fits. The scope records and decides nothing more.
     *
     * @param name as for {@link #finish}; it is lost if the head has left already
     */
    public byte[] lastPiece(long at, long status, String name) {
        if (!answers()) {
            end(at, status, name);
            return null;
        }
        synchronized (this) {
            if (recording == null) {
                return null;
            }
            close(at, status);
            Pieces of = pieces != null ? pieces : new Pieces(head(Text.cut(name, Names.MAX_NAME_BYTES)));
            byte[] piece = of.last(recording.events);
            recording.release();
            over();
            return piece;
        }
    }

    private byte[] head(String name) {
        Writer out = new Writer(96).u8(Envelope.VERSION).u64(envelope.hop.call);
        Segment.writePrefix(out, recording.flags, process.service(), name, startUs);
        return out.toBytes();
    }
}

package dev.faultloom.scope;

import dev.faultloom.scope.Recording.CallRecord;
import dev.faultloom.wire.Accept;
import dev.faultloom.wire.CallId;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Event;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.GrpcCode;
import dev.faultloom.wire.History;
import dev.faultloom.wire.Names;
import dev.faultloom.wire.PieceJoiner;
import dev.faultloom.wire.Segment;
import dev.faultloom.wire.Text;
import dev.faultloom.wire.WireError;
import dev.faultloom.wire.Writer;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The work done to answer one call. Times are µs since the scope began, by the monotonic clock; see {@link #now}.
 *
 * <p>Events are encoded into one buffer as they happen; histories of callees are appended unchanged and are decoded
 * only if there is a plan to evaluate. Safe for concurrent use, never blocks, throws nothing.
 */
public final class Scope {
    /**
     * Number of unfinished scopes in this process. A scope that never finishes only disables the shortcuts of callers.
     */
    static final AtomicInteger UNFINISHED = new AtomicInteger();

    /** Different unscoped calls that a segment lists. Further ones are counted together. */
    private static final int MAX_UNSCOPED = 16;

    private final Process process;
    private final Envelope envelope;
    private final long startNanos;
    private final long startUs;
    private final ExportTarget exportTarget; // null: the history returns with the reply
    private final Evidence evidence; // null without a plan
    private PieceWriter pieces; // of a stream whose first piece was sent, else null
    private Recording recording = Recording.acquire(); // null once the scope is finished
    private final ScopeContext context = ScopeContext.of(this);
    private ScopeContext inheritedContext; // null: no thread was started
    private final long unscopedBefore;
    private long ownUnscoped; // its own calls in UnscopedCalls; guarded by the lock of that class

    Scope(Process process, Envelope envelope, long startNanos, long startUs, ExportTarget exportTarget) {
        this.process = process;
        this.envelope = envelope;
        this.startNanos = startNanos;
        this.startUs = startUs;
        this.exportTarget = exportTarget;
        UNFINISHED.incrementAndGet();
        unscopedBefore = UnscopedCalls.count();
        if (envelope.signed.plan == null) {
            evidence = null;
        } else {
            evidence = new Evidence(envelope.signed.plan, envelope.hop.evidence);
            checkFaultsEnabled();
        }
    }

    /** Whether any scope of this process is unfinished. If none is, no call belongs to a scope. */
    public static boolean anyUnfinished() {
        return UNFINISHED.get() != 0;
    }

    static long wallUs() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }

    /** The process that this scope belongs to. */
    public Process process() {
        return process;
    }

    /** The accepted envelope. */
    public Envelope envelope() {
        return envelope;
    }

    /** The time since the scope began, in µs. */
    public long now() {
        return (System.nanoTime() - startNanos) / 1000;
    }

    /** Whether the history returns with the reply. If not, the methods that finish the scope return null. */
    public boolean returnsHistory() {
        return envelope.signed.history && exportTarget == null;
    }

    /** Whether the trace began here, because the request was sampled. */
    public boolean isSampled() {
        return exportTarget != null && exportTarget.isSampled;
    }

    /** Whether faults may fire now. If not, the segment is marked. */
    private boolean checkFaultsEnabled() {
        if (process.receiver().faultsEnabled()) {
            return true;
        }
        recording.flags |= Segment.FAULTS_OFF;
        return false;
    }

    /** Announces that further requests of this method may carry their envelope in a field. */
    public synchronized void announceField() {
        if (recording != null) {
            recording.flags |= Segment.TAKES_FIELD;
        }
    }

    /** Finishes this scope without a reply. Nothing is returned or exported. */
    public synchronized void abandon() {
        if (recording != null) {
            recording.release();
            markFinished();
        }
    }

    /** The context of the threads that work for this scope. */
    public ScopeContext context() {
        return context;
    }

    /** The context of the threads that those start. */
    synchronized ScopeContext inheritedContext() {
        if (inheritedContext == null) {
            inheritedContext = ScopeContext.inheritedFrom(recording == null ? null : this);
        }
        return inheritedContext;
    }

    private void markFinished() {
        recording = null;
        context.end();
        if (inheritedContext != null) {
            inheritedContext.end();
        }
        UNFINISHED.decrementAndGet();
    }

    /**
     * {@link #beginCall} or {@link #beginInheritedCall} for gRPC. {@code receiveLimit} 0: the reply must not carry a
     * field.
     */
    public OutgoingCall beginGrpcCall(boolean inherited, String authority, String method, long receiveLimit) {
        int accept = receiveLimit > 0 && envelope.signed.history ? Accept.FIELD : Accept.NONE;
        String peer = process.peerName(authority);
        return inherited
                ? beginInheritedCall(now(), false, peer, method, accept, receiveLimit)
                : beginCall(now(), false, peer, method, accept, receiveLimit);
    }

    /** {@link #beginCall} or {@link #beginInheritedCall} for HTTP. {@code tail}: the reply may carry a tail. */
    public OutgoingCall beginHttpCall(boolean inherited, String authority, String method, String target, boolean tail) {
        int accept = tail && envelope.signed.history ? Accept.TAIL : Accept.NONE;
        String peer = process.peerName(authority);
        String name = Names.rawHttpName(method, target);
        return inherited ? beginInheritedCall(now(), true, peer, name, accept, 0) : beginCall(now(), true, peer, name, accept, 0);
    }

    /**
     * Numbers an outgoing call, decides which fault fires, and records SEND_REQUEST. Null if the scope is finished:
     * send the request unchanged.
     *
     * @param peer name of the callee, or its authority
     * @param name gRPC method, or {@code METHOD /path}, not normalized
     * @param accept bits of {@link Accept}
     * @param receiveLimit in bytes, 0: unknown
     */
    public OutgoingCall beginCall(long at, boolean http, String peer, String name, int accept, long receiveLimit) {
        return begin(Event.SEND_REQUEST, at, http, peer, name, accept, receiveLimit);
    }

    /**
     * {@link #beginCall} for a call whose context had no scope, and which therefore got that of its thread. Other
     * unfinished scopes count it, because it may belong to them.
     */
    public OutgoingCall beginInheritedCall(long at, boolean http, String peer, String name, int accept, long receiveLimit) {
        OutgoingCall call = begin(Event.SEND_REQUEST | Event.TAG_INHERITED, at, http, peer, name, accept, receiveLimit);
        if (call != null && UNFINISHED.get() > 1) {
            UnscopedCalls.addInherited(this, http, peer, name);
        }
        return call;
    }

    private OutgoingCall begin(int kind, long at, boolean http, String peer, String name, int accept, long receiveLimit) {
        String recordedName = recordedText(http ? Names.normalizeHttpName(name) : name);
        String recordedPeer = recordedText(peer);
        synchronized (this) {
            if (recording == null) {
                return null;
            }
            int number = recording.callCount() + 1;
            int tag = kind | (http ? Event.TAG_HTTP : 0);
            int index = -1;
            if (evidence != null) {
                index = evidence.decideFault(process.service(), peer, name, checkFaultsEnabled());
                tag |= index >= 0 ? Event.TAG_FAULT : 0;
            }
            recording.recordSend(tag, at, peer, name, recordedName, recordedPeer, index);
            if (evidence != null) {
                evidence.countPrerequisites(true, process.service(), peer, name);
            }
            long id = CallId.derive(envelope.hop.call, number);
            byte[] out = envelope.assemble(id, accept, receiveLimit, evidence == null ? null : evidence.counters());
            Fault fault = index < 0 ? null : envelope.signed.plan.get(index);
            return new OutgoingCall(number, id, index, fault, out, envelope);
        }
    }

    static String recordedText(String s) {
        return s.isEmpty() ? "unknown" : Text.truncate(s, Names.MAX_NAME_BYTES);
    }

    /**
     * Records that the reply of a call arrived. Only the first end of a call counts. A history counts only if it
     * belongs to this call; a foreign one, such as a caching proxy returns, is a gap.
     *
     * @param status gRPC code or HTTP status
     * @param history of the callee, or null: the joined pieces, if any arrived; not kept
     * @param gap without a history: the callee may have run
     */
    public void recordReply(long at, int number, long status, byte[] history, boolean gap) {
        recordEnd(Event.RECV_RESPONSE, at, number, status, history, 0, history == null ? 0 : history.length, gap);
    }

    /** {@link #recordReply(long, int, long, byte[], boolean)} with a history inside a larger array. */
    public void recordReply(long at, int number, long status, byte[] array, int from, int to) {
        recordEnd(Event.RECV_RESPONSE, at, number, status, array, from, to, true);
    }

    /** Records that a call ended without a reply; the status is a gRPC code. Otherwise like {@link #recordReply}. */
    public void recordFailure(long at, int number, long status, byte[] history, boolean gap) {
        recordEnd(Event.CALL_FAILED, at, number, status, history, 0, history == null ? 0 : history.length, gap);
    }

    /** Sets how long a call spent on a connection of its own, in µs. The end of the call records that. */
    public synchronized void setConnectTime(int number, long us) {
        CallRecord call = recording == null ? null : recording.call(number);
        if (call != null) {
            call.connectUs = us;
        }
    }

    /** Registers a reply whose history has not arrived yet. If it never arrives, finishing the scope records a gap. */
    public synchronized void replyStarted(int number, long status) {
        CallRecord call = recording == null ? null : recording.call(number);
        if (call != null) {
            call.replyStarted = true;
            call.replyStatus = status;
        }
    }

    /**
     * Registers a call as a stream. If it is open when the scope finishes, it is recorded as canceled, with its pieces.
     */
    public synchronized void openStream(int number) {
        CallRecord call = recording == null ? null : recording.call(number);
        if (call != null) {
            call.isStream = true;
        }
    }

    /** Adds a piece of the callee's history to a call. The array is not kept. */
    public synchronized void addPiece(int number, byte[] piece) {
        CallRecord call = recording == null ? null : recording.call(number);
        if (call == null || call.ended) {
            return;
        }
        if (call.pieces == null) {
            call.pieces = new PieceJoiner();
        }
        call.pieces.add(piece, 0, piece.length);
    }

    private synchronized void recordEnd(int kind, long at, int number, long status, byte[] b, int from, int to, boolean gap) {
        CallRecord call = recording == null ? null : recording.call(number);
        if (call == null || call.ended) {
            return;
        }
        call.ended = true;
        long id = CallId.derive(envelope.hop.call, number);
        if (b == null && call.pieces != null) {
            b = call.pieces.history(id);
            from = 0;
            to = b == null ? 0 : b.length;
        }
        int child = 0; // bytes of the callee's segment
        if (b != null) {
            gap = true;
            try {
                if (History.readCallId(b, from, to) == id) {
                    child = to - from - History.HEAD_BYTES;
                    gap = false;
                }
            } catch (WireError e) {
                // not a history: recorded as a gap
            }
        }
        boolean embed = b != null && !gap;
        if (evidence != null) {
            if (kind == Event.RECV_RESPONSE) {
                evidence.countPrerequisites(false, process.service(), call.peer, call.name);
            }
            if (embed && evidence.hasConditions) {
                // One that cannot be read is embedded all the same: the tool reports what is wrong with it. One with
                // too many events is not, since the plan's conditions do not cover it.
                Segment.Counted counted = Segment.decodeCounted(b[from], b, to - child, to);
                if (counted.tooLarge) {
                    embed = false;
                    gap = true;
                    child = 0;
                } else if (counted.segment != null) {
                    evidence.addHistory(counted.segment);
                }
            }
        }
        recording.recordEnd(kind, at, number, status, embed ? b[from] : 0, embed ? b : null, to - child, child, gap);
    }

    /**
     * Records UNSCOPED_CALLS: equal calls together, in the order of the first of each.
     *
     * @param more number of further calls, of which nothing else is known
     */
    public synchronized void recordUnscoped(long at, List<UnscopedCall> calls, long more) {
        if (recording == null) {
            return;
        }
        Map<UnscopedCall, Long> counts = new LinkedHashMap<>();
        long others = more;
        for (UnscopedCall call : calls) {
            if (counts.size() < MAX_UNSCOPED || counts.containsKey(call)) {
                counts.merge(call, 1L, Long::sum);
            } else {
                others++;
            }
        }
        for (Map.Entry<UnscopedCall, Long> entry : counts.entrySet()) {
            recording.recordUnscoped(at, entry.getKey(), entry.getValue());
        }
        if (others != 0) {
            recording.recordUnscoped(at, UnscopedCall.OTHERS, others);
        }
    }

    /**
     * Records SEND_RESPONSE and returns the history. Null if no history returns with the reply, or the scope was
     * finished before. A finished scope records and decides nothing more.
     *
     * @param name the call's name at this service, such as an HTTP route template; empty: the same as the caller's
     */
    public byte[] finish(long at, long status, String name) {
        PendingHistory history = finishRecording(at, status, name);
        return history == null ? null : history.history();
    }

    /**
     * {@link #finish} where the carrier is not known yet, so that the history is encoded once, in its final place; or
     * null.
     */
    public PendingHistory finishLater(long at, long status) {
        return finishRecording(at, status, "");
    }

    private PendingHistory finishRecording(long at, long status, String name) {
        PendingHistory history;
        synchronized (this) {
            if (recording == null) {
                return null;
            }
            recordResponse(at, status);
            String ownName = Text.truncate(name, Names.MAX_NAME_BYTES);
            history = new PendingHistory(envelope.hop.call, process.service(), ownName, startUs, recording);
            markFinished();
        }
        if (returnsHistory()) {
            return history;
        }
        export(history);
        return null;
    }

    private void export(PendingHistory history) {
        if (exportTarget != null && exportTarget.sink != null && envelope.signed.history) {
            exportTarget.sink.add(envelope.signed.traceHigh, envelope.signed.traceLow, exportTarget.hasParent, history.history());
        } else {
            history.drop();
        }
    }

    private void recordResponse(long at, long status) {
        for (int number = 1; number <= recording.callCount(); number++) {
            CallRecord call = recording.call(number);
            if (call.isStream && !call.ended) {
                recordEnd(Event.CALL_FAILED, at, number, GrpcCode.CANCELED, null, 0, 0, true);
            } else if (call.replyStarted && !call.ended) {
                recordEnd(Event.RECV_RESPONSE, at, number, call.replyStatus, null, 0, 0, true);
            }
        }
        UnscopedCalls.record(this, at);
        recording.recordResponse(at, status);
    }

    /**
     * The next piece of this scope's history, to append to a reply message of a stream. Null: nothing new was recorded,
     * or the piece does not fit; it is then sent with a later message.
     *
     * @param messageBytes the message's length
     * @param sendLimit the limit for message and field on this side; the caller's limit is in the envelope
     */
    public synchronized byte[] nextPiece(long messageBytes, long sendLimit) {
        long receiveLimit = envelope.hop.receiveLimit; // unsigned
        if (recording == null || !returnsHistory() || (envelope.hop.accept & Accept.FIELD) == 0 || receiveLimit == 0) {
            return null;
        }
        PieceWriter writer = pieces != null ? pieces : new PieceWriter(encodeHead(""));
        long room = Math.min(receiveLimit < 0 ? Long.MAX_VALUE : receiveLimit, sendLimit) - messageBytes;
        byte[] piece = writer.nextPiece(recording.version, recording.events, room);
        if (piece != null) {
            pieces = writer;
        }
        return piece;
    }

    /** {@link #lastPiece(long, long, String)} for a call that has the caller's name. */
    public byte[] lastPiece(long at, long status) {
        return lastPiece(at, status, "");
    }

    /**
     * Finishes the scope of a stream and returns the last piece, for the trailer. Null if no history returns with the
     * reply, or not even SEND_RESPONSE fits.
     *
     * @param name as for {@link #finish}; ignored if a piece was sent before
     */
    public byte[] lastPiece(long at, long status, String name) {
        if (!returnsHistory()) {
            finishRecording(at, status, name);
            return null;
        }
        synchronized (this) {
            if (recording == null) {
                return null;
            }
            recordResponse(at, status);
            PieceWriter writer = pieces != null ? pieces : new PieceWriter(encodeHead(Text.truncate(name, Names.MAX_NAME_BYTES)));
            byte[] piece = writer.lastPiece(recording.version, recording.events);
            recording.release();
            markFinished();
            return piece;
        }
    }

    /** The number of calls in {@link UnscopedCalls} before this scope. */
    long unscopedBefore() {
        return unscopedBefore;
    }

    /** Its own calls in {@link UnscopedCalls}. Requires the lock of that class. */
    long ownUnscoped() {
        return ownUnscoped;
    }

    /** Requires the lock of {@link UnscopedCalls}. */
    void addOwnUnscoped() {
        ownUnscoped++;
    }

    private byte[] encodeHead(String name) {
        Writer out = new Writer(96).u8(recording.version).u64(envelope.hop.call);
        Segment.writePrefix(out, recording.flags, process.service(), name, startUs);
        return out.toBytes();
    }
}

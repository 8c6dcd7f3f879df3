package dev.faultloom.hooks.http;

import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.History;
import dev.faultloom.wire.Names;
import dev.faultloom.wire.Segment;
import dev.faultloom.wire.WireError;
import java.util.Arrays;

/**
 * Removes a tail from the body of a reply.
 *
 * <pre>
 * start ── body, ready to take ── free ── may belong to a tail ── end
 * </pre>
 *
 * The start of a tail is certain only at the end of the body, so bytes are held back from the first position that could
 * be the start: a version, flags, a short service name. Text does not contain this pattern. In binary data most
 * candidates are rejected within a few bytes; a candidate that matches is rejected after the longest possible tail. Not
 * safe for concurrent use.
 */
public final class TailWindow {
    private static final int MAX_TAIL = History.MAX_BYTES + 8;
    private static final int FLAGS_AT = History.HEAD_BYTES;
    private static final int LENGTH_AT = FLAGS_AT + 1;
    private static final int NAME_AT = LENGTH_AT + 1;

    private byte[] bytes = new byte[8192];
    private int start;
    private int free;
    private int end;

    /** Adds the next bytes of the body. */
    public void add(byte[] b, int from, int length) {
        if (bytes.length - end < length) {
            System.arraycopy(bytes, start, bytes = grown(length), 0, end - start);
            end -= start;
            free -= start;
            start = 0;
        }
        System.arraycopy(b, from, bytes, end, length);
        end += length;
        release();
    }

    private byte[] grown(int more) {
        int needed = end - start + more;
        return new byte[needed <= bytes.length ? bytes.length : Math.max(needed, 2 * bytes.length)];
    }

    /** Moves {@link #free} to the first byte that could be the start of a tail. */
    private void release() {
        while (free < end) {
            if (History.isVersion(bytes[free]) && end - free <= MAX_TAIL && couldStartTail(free)) {
                return;
            }
            free++;
        }
    }

    private boolean couldStartTail(int at) {
        int held = end - at;
        if (held > FLAGS_AT && (bytes[at + FLAGS_AT] & ~(Segment.TRUNCATED | Segment.FAULTS_OFF)) != 0) {
            return false;
        }
        int length = held > LENGTH_AT ? bytes[at + LENGTH_AT] : 1;
        if (length < 1 || length > Names.MAX_SERVICE_BYTES) {
            return false;
        }
        for (int i = at + NAME_AT; i < Math.min(end, at + NAME_AT + length); i++) {
            if ((bytes[i] >= 0 && bytes[i] < 0x20) || bytes[i] == 0x7F) {
                return false;
            }
        }
        return true;
    }

    /** Number of bytes that can be taken. */
    public int ready() {
        return free - start;
    }

    /** Takes at most {@code length} bytes; returns how many. */
    public int take(byte[] into, int from, int length) {
        int n = Math.min(length, free - start);
        System.arraycopy(bytes, start, into, from, n);
        start += n;
        return n;
    }

    /** Takes all bytes that are ready. */
    public byte[] take() {
        byte[] out = Arrays.copyOfRange(bytes, start, free);
        start = free;
        return out;
    }

    /** The tail of this call if the bytes held back are exactly that, so that nothing can follow; else null. */
    Carrier.Cut completeTail(long call) {
        Carrier.Cut cut = free < end ? Carrier.cutTail(bytes, free, end) : null;
        return cut != null && cut.end == free && belongsTo(cut, call) ? cut : null;
    }

    private boolean belongsTo(Carrier.Cut cut, long call) {
        try {
            return History.readCallId(bytes, cut.historyFrom, cut.historyTo) == call;
        } catch (WireError e) {
            return false;
        }
    }

    /** A copy of the history in a tail. */
    byte[] history(Carrier.Cut cut) {
        return Arrays.copyOfRange(bytes, cut.historyFrom, cut.historyTo);
    }

    /** Ends the body: removes the tail and returns its history, or null. The rest becomes ready. */
    public byte[] finish() {
        Carrier.Cut cut = Carrier.cutTail(bytes, free, end);
        if (cut != null) {
            byte[] history = history(cut);
            end = cut.end;
            free = end;
            return history;
        }
        free = end;
        return null;
    }

    /** Makes all bytes ready, without looking for a tail. */
    public void releaseAll() {
        free = end;
    }
}

package dev.faultloom.http;

import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.History;
import dev.faultloom.wire.Names;
import dev.faultloom.wire.Segment;
import dev.faultloom.wire.WireError;
import java.util.Arrays;

/**
 * A reply's body on its way to the application, of which a tail is cut off.
 *
 * <pre>
 * start ── certainly body, to be taken ── free ── may belong to a tail ── end
 * </pre>
 *
 * Where the tail begins is certain only at the end, so bytes are held back from the first place that could be its
 * beginning: 0x01, flags, a short name. Text never looks like that; in binary data most such places are given up within a
 * few bytes, and one that stands is given up after the longest possible tail. Not safe for concurrent use.
 */
public final class Window {
    private static final int MAX_TAIL = History.MAX_BYTES + 8;
    private static final int FLAGS_AT = History.HEAD_BYTES;
    private static final int LENGTH_AT = FLAGS_AT + 1;
    private static final int NAME_AT = LENGTH_AT + 1;

    private byte[] bytes = new byte[8192];
    private int start;
    private int free;
    private int end;

    /** Takes the next bytes of the body. */
    public void feed(byte[] b, int from, int length) {
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

    /** Moves {@link #free} to the first byte that could begin a tail. */
    private void release() {
        while (free < end) {
            if (bytes[free] == Envelope.VERSION && end - free <= MAX_TAIL && couldBegin(free)) {
                return;
            }
            free++;
        }
    }

    private boolean couldBegin(int at) {
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

    /** How many bytes can be taken now. */
    public int ready() {
        return free - start;
    }

    /** Takes at most so many bytes; how many. */
    public int take(byte[] into, int from, int length) {
        int n = Math.min(length, free - start);
        System.arraycopy(bytes, start, into, from, n);
        start += n;
        return n;
    }

    /** Takes all that is ready. */
    public byte[] take() {
        byte[] out = Arrays.copyOfRange(bytes, start, free);
        start = free;
        return out;
    }

    /** The history of this call, if exactly that is held back: nothing else can follow; else null. */
    public byte[] early(long call) {
        Carrier.Cut cut = free < end ? Carrier.cutTail(bytes, free, end) : null;
        return cut != null && cut.end == free && answers(cut, call) ? history(cut) : null;
    }

    private boolean answers(Carrier.Cut cut, long call) {
        try {
            return History.callOf(bytes, cut.historyFrom, cut.historyTo) == call;
        } catch (WireError e) {
            return false;
        }
    }

    private byte[] history(Carrier.Cut cut) {
        return Arrays.copyOfRange(bytes, cut.historyFrom, cut.historyTo);
    }

    /** The body is complete: cuts the tail off and returns its history, or null. What remains can be taken. */
    public byte[] finish() {
        Carrier.Cut cut = Carrier.cutTail(bytes, start, end);
        if (cut != null) {
            byte[] history = history(cut);
            end = cut.end;
            free = end;
            return history;
        }
        free = end;
        return null;
    }

    /** No more will come: all that is here is body. */
    public void abandon() {
        free = end;
    }
}

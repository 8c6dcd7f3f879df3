package dev.faultloom.scope;

import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Piece;
import dev.faultloom.wire.WireError;
import dev.faultloom.wire.Writer;

/** How much of a stream's history has left. */
final class Pieces {
    private final byte[] head;
    private boolean headLeft;
    private int eventsLeft; // bytes of events that have left

    /** @param head the history up to its events, as it is to leave */
    Pieces(byte[] head) {
        this.head = head;
    }

    private int left() {
        return headLeft ? head.length + eventsLeft : 0;
    }

    /** What is new, or null: nothing is, or its field would be longer than {@code room}. */
    byte[] next(Writer events, long room) {
        int n = head.length + events.length() - left();
        if (n == 0 || Carrier.fieldLength(Piece.size(left(), n)) > room) {
            return null;
        }
        byte[] piece = headLeft
                ? Piece.of(left(), events.array(), eventsLeft, n)
                : Piece.of(0, whole(events), 0, n);
        headLeft = true;
        eventsLeft = events.length();
        return piece;
    }

    /** The rest of a history that has ended, cut if it has to be, or null. */
    byte[] last(Writer events) {
        try {
            return Piece.last(whole(events), left(), Carrier.MAX_TRAILER_BYTES);
        } catch (WireError e) {
            return null; // impossible: it was written here
        }
    }

    private byte[] whole(Writer events) {
        return new Writer(head.length + events.length()).bytes(head).bytes(events.array(), 0, events.length()).array();
    }
}

package dev.faultloom.scope;

import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Piece;
import dev.faultloom.wire.WireError;
import dev.faultloom.wire.Writer;

/** Splits the history of a stream into pieces and tracks how much was sent. */
final class PieceWriter {
    private final byte[] head; // has the version of the history when it was sent
    private boolean headSent;
    private int eventBytesSent;

    /** @param head the encoded history up to its events */
    PieceWriter(byte[] head) {
        this.head = head;
    }

    private int bytesSent() {
        return headSent ? head.length + eventBytesSent : 0;
    }

    /** The bytes added since the last piece, or null: none, or the field would be longer than {@code room}. */
    byte[] nextPiece(int version, Writer events, long room) {
        int n = head.length + events.length() - bytesSent();
        if (n == 0 || Carrier.fieldLength(Piece.encodedLength(bytesSent(), n)) > room) {
            return null;
        }
        byte[] piece = headSent
                ? Piece.encode(version, bytesSent(), events.array(), eventBytesSent, n)
                : Piece.encode(version, 0, history(events), 0, n);
        headSent = true;
        eventBytesSent = events.length();
        return piece;
    }

    /** The rest of a finished history, truncated if needed; null if not even SEND_RESPONSE fits. */
    byte[] lastPiece(int version, Writer events) {
        try {
            return Piece.encodeLast(version, history(events), bytesSent(), Carrier.MAX_TRAILER_BYTES);
        } catch (WireError e) {
            return null; // impossible: this class encoded it
        }
    }

    private byte[] history(Writer events) {
        return new Writer(head.length + events.length()).bytes(head).bytes(events.array(), 0, events.length()).array();
    }
}

package dev.faultloom.scope;

import dev.faultloom.wire.Bytes;
import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.History;
import dev.faultloom.wire.Segment;
import dev.faultloom.wire.Text;
import dev.faultloom.wire.Writer;

/**
 * The history of a finished scope whose carrier is not chosen yet. It is encoded once: call exactly one of {@link
 * #field}, {@link #history} and {@link #drop}.
 */
public final class PendingHistory {
    private final long call;
    private final String service;
    private final String name;
    private final long startUs;
    private final int length;
    private Recording recording; // null once encoded or dropped

    PendingHistory(long call, String service, String name, long startUs, Recording recording) {
        this.call = call;
        this.service = service;
        this.name = name;
        this.startUs = startUs;
        this.recording = recording;
        int nameBytes = name.isEmpty() ? 0 : Text.utf8Length(name);
        int serviceBytes = Text.utf8Length(service);
        length = History.HEAD_BYTES + 1 + 1 + serviceBytes + Bytes.varintLength(nameBytes) + nameBytes
                + Bytes.varintLength(startUs) + recording.events.length();
    }

    /** The history's length in bytes. */
    public int length() {
        return length;
    }

    /** The length of the result of {@link #field}. */
    public int fieldLength() {
        return Carrier.fieldLength(length);
    }

    /** The field to append to a serialized message; null if the history was encoded before. */
    public byte[] field() {
        if (recording == null) {
            return null;
        }
        Writer out = new Writer(fieldLength());
        Carrier.beginField(out, length);
        write(out);
        Carrier.endField(out, length);
        return out.array();
    }

    /** The encoded history; null if it was encoded before. */
    public byte[] history() {
        if (recording == null) {
            return null;
        }
        Writer out = new Writer(length);
        write(out);
        return out.array();
    }

    private void write(Writer out) {
        out.u8(recording.version).u64(call);
        Segment.writePrefix(out, recording.flags, service, name, startUs);
        out.bytes(recording.events.array(), 0, recording.events.length());
        drop();
    }

    /** Discards the history. */
    public void drop() {
        if (recording != null) {
            recording.release();
            recording = null;
        }
    }
}

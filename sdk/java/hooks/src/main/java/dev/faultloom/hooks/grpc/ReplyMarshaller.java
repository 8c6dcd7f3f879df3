package dev.faultloom.hooks.grpc;

import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Join;
import dev.faultloom.wire.Kind;
import dev.faultloom.wire.Piece;
import io.grpc.MethodDescriptor.Marshaller;
import io.grpc.Status;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;

/**
 * Reads the replies of one call: cuts the history off before the library parses the message, and changes the message if a
 * fault says so. Messages of one call are read one after the other.
 */
final class ReplyMarshaller<R> implements Marshaller<R> {
    private final Marshaller<R> library;
    private final Kind kind;
    private byte[] history;
    private Join pieces;
    private volatile boolean spoiled;

    /** {@code kind}: what a fault does to the messages, or null. */
    ReplyMarshaller(Marshaller<R> library, Kind kind) {
        this.library = library;
        this.kind = kind == Kind.EMPTY_REPLY || kind == Kind.CORRUPT_REPLY ? kind : null;
    }

    @Override
    public InputStream stream(R value) {
        return library.stream(value);
    }

    @Override
    public R parse(InputStream in) {
        byte[] bytes;
        try (in) {
            bytes = Bytes.read(in);
        } catch (IOException e) {
            throw Status.INTERNAL.withDescription("Reading the reply failed").withCause(e).asRuntimeException();
        }
        int end = bytes.length;
        Carrier.Cut cut = Carrier.cutField(bytes, 0, end);
        if (cut != null) {
            end = cut.end;
            take(Arrays.copyOfRange(bytes, cut.historyFrom, cut.historyTo));
        }
        if (kind == Kind.EMPTY_REPLY) {
            end = 0;
        } else if (kind == Kind.CORRUPT_REPLY) {
            Carrier.corrupt(bytes, 0, end);
        }
        try {
            return library.parse(new Bytes(bytes, end));
        } catch (RuntimeException e) {
            spoiled = kind != null;
            throw e;
        }
    }

    /** Notes a history or a piece of one, from wherever it came. */
    synchronized void take(byte[] found) {
        if (Piece.is(found, 0, found.length)) {
            if (pieces == null) {
                pieces = new Join();
            }
            pieces.add(found, 0, found.length);
        } else {
            history = found;
        }
    }

    /** Whether the library could not read a message because a fault has changed it. */
    boolean spoiled() {
        return spoiled;
    }

    /** What has come so far, or null. */
    synchronized byte[] history(long call) {
        return history != null ? history : pieces == null ? null : pieces.history(call);
    }
}

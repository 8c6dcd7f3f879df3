package dev.faultloom.hooks.grpc;

import dev.faultloom.hooks.faults.FaultEffect;
import dev.faultloom.hooks.faults.Faults;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Piece;
import io.grpc.MethodDescriptor.Marshaller;
import io.grpc.Status;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;

/**
 * Parses the reply messages of one call: removes the history before the library parses the message, and changes the
 * message if a fault requires it. The library parses the messages of a call one after the other.
 */
final class ReplyMarshaller<R> implements Marshaller<R> {
    private final Marshaller<R> library;
    private final Scope scope;
    private final int callNumber;
    private final FaultEffect effect;
    private volatile byte[] history;
    private volatile boolean madeUnreadable;

    ReplyMarshaller(Marshaller<R> library, Scope scope, int callNumber, FaultEffect effect) {
        this.library = library;
        this.scope = scope;
        this.callNumber = callNumber;
        this.effect = effect;
    }

    @Override
    public InputStream stream(R value) {
        return library.stream(value);
    }

    @Override
    public R parse(InputStream in) {
        byte[] bytes;
        try (in) {
            bytes = MessageStream.readAll(in);
        } catch (IOException e) {
            throw Status.INTERNAL.withDescription("Reading the reply failed").withCause(e).asRuntimeException();
        }
        int end = bytes.length;
        Carrier.Cut cut = Carrier.cutField(bytes, 0, end);
        if (cut != null) {
            end = cut.end;
            addHistory(Arrays.copyOfRange(bytes, cut.historyFrom, cut.historyTo));
        }
        end = Faults.changeBody(effect.outcome, bytes, end);
        try {
            return library.parse(new MessageStream(bytes, end));
        } catch (RuntimeException e) {
            madeUnreadable = effect.changesBody();
            throw e;
        }
    }

    /** Adds a history, or a piece of one, from any carrier. */
    void addHistory(byte[] found) {
        if (Piece.isPiece(found, 0, found.length)) {
            scope.addPiece(callNumber, found);
        } else {
            history = found;
        }
    }

    /** Whether the library could not parse a message because a fault changed it. */
    boolean madeUnreadable() {
        return madeUnreadable;
    }

    /** The complete history, or null. The scope joins pieces. */
    byte[] history() {
        return history;
    }
}

package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.PendingHistory;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Accept;
import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.History;
import dev.faultloom.wire.WireError;
import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.ServerCall;
import io.grpc.Status;

/**
 * The reply to one request, with the history if the request is traced.
 *
 * <pre>
 * UNTRACED ◀─end/begin─▶ TRACED ──unary message──▶ HOLDING ──close, cancel──▶ CLOSED
 *    │                  └──────────close, cancel─────────────────────────▶ CLOSED
 *    └──message, close──▶ REPLIED
 * </pre>
 *
 * The single message of a unary reply is held until the application closes the call. The library would not send it
 * earlier either, and only then is the history complete.
 */
final class TracedServerCall<Q, R> extends SimpleForwardingServerCall<Q, R> {
    private enum State {
        /** No scope; nothing was sent. */
        UNTRACED,
        /** No scope; a reply has started, so none can begin. */
        REPLIED,
        /** The scope is unfinished; no unary message is held. */
        TRACED,
        /** The scope is unfinished; the unary message is held. */
        HOLDING,
        /** The scope is finished. */
        CLOSED
    }

    private final boolean serverAcceptsFields;
    private volatile State state = State.UNTRACED; // another thread may cancel the call
    private Scope scope; // null in UNTRACED and REPLIED
    private boolean appendsField; // to messages, if they have room
    private boolean requestFieldIsReadable;
    private R heldMessage; // in HOLDING

    TracedServerCall(ServerCall<Q, R> call, boolean serverAcceptsFields) {
        super(call);
        this.serverAcceptsFields = serverAcceptsFields;
    }

    /** Begins the scope. Replaces any earlier scope: the client may have forwarded our metadata. */
    void begin(Scope newScope) {
        if (scope != null) {
            scope.abandon();
        }
        scope = newScope;
        state = State.TRACED;
        appendsField = newScope.returnsHistory() && (newScope.envelope().hop.accept & Accept.FIELD) != 0
                && newScope.envelope().hop.receiveLimit != 0
                && FieldAppender.canAppend(delegate(), delegate().getMethodDescriptor());
    }

    /** Ends the scope without a history: the request is not traced. */
    void end() {
        scope.abandon();
        scope = null;
        appendsField = false;
        state = State.UNTRACED;
    }

    /** Called when the request's message has arrived. {@code isReadable}: a field in it would have been found. */
    void requestArrived(boolean isReadable) {
        requestFieldIsReadable = isReadable;
    }

    /** Whether a scope can still begin. */
    boolean canBegin() {
        State now = state;
        return now == State.UNTRACED || now == State.TRACED;
    }

    private boolean isStream() {
        MethodDescriptor.MethodType type = getMethodDescriptor().getType();
        return !type.clientSendsOneMessage() || !type.serverSendsOneMessage();
    }

    @Override
    public void sendMessage(R message) {
        if (scope == null) {
            state = State.REPLIED;
            super.sendMessage(message);
        } else if (isStream()) {
            super.sendMessage(withPiece(message));
        } else if (changeState(State.TRACED, State.HOLDING)) {
            heldMessage = message;
        } else if (changeState(State.HOLDING, State.TRACED)) {
            // a second message is an error of the application, which the library reports
            sendHeldMessage();
            super.sendMessage(message);
        } // CLOSED: nothing is sent after the end or a cancellation
    }

    /** Changes the state if it is {@code from}. Another thread may have canceled the call. */
    private synchronized boolean changeState(State from, State to) {
        if (state != from) {
            return false;
        }
        state = to;
        return true;
    }

    private R withPiece(R message) {
        int length = appendsField ? FieldAppender.length(message) : -1;
        byte[] piece = length < 0 ? null : scope.nextPiece(length, Integer.MAX_VALUE);
        return piece == null ? message : FieldAppender.append(message, Carrier.encodeField(piece));
    }

    @Override
    public void close(Status status, Metadata trailers) {
        if (scope == null) {
            state = State.REPLIED;
            super.close(status, trailers);
            return;
        }
        if (state == State.CLOSED) {
            super.close(status, trailers);
            return;
        }
        boolean isHolding = state == State.HOLDING;
        state = State.CLOSED;
        Metadata out = trailers;
        int code = status.getCode().value();
        if (!scope.returnsHistory()) {
            scope.finish(scope.now(), code, exportedName());
        } else if (isStream()) {
            out = withHistory(scope.lastPiece(scope.now(), code), trailers);
        } else if (status.isOk() && !isHolding && getMethodDescriptor().getType().serverSendsOneMessage()) {
            // the library turns a missing message into INTERNAL
            scope.finish(scope.now(), Status.Code.INTERNAL.value(), "");
        } else {
            out = finishUnary(status, trailers);
        }
        sendHeldMessage();
        super.close(status, out);
    }

    /** An exported history has no caller that names the call. */
    private String exportedName() {
        return scope.returnsHistory() ? "" : "/" + getMethodDescriptor().getFullMethodName();
    }

    /** Finishes the scope. The history goes into a field of the held message if it fits, else into the trailers. */
    private Metadata finishUnary(Status status, Metadata trailers) {
        if (serverAcceptsFields && requestFieldIsReadable && FieldAppender.isDirect(delegate())) {
            scope.announceField();
        }
        PendingHistory history = scope.finishLater(scope.now(), status.getCode().value());
        if (history == null) {
            return trailers;
        }
        int length = appendsField && status.isOk() ? FieldAppender.length(heldMessage) : -1;
        if (length >= 0 && history.length() <= History.MAX_BYTES
                && Long.compareUnsigned((long) length + history.fieldLength(), scope.envelope().hop.receiveLimit) <= 0) {
            heldMessage = FieldAppender.append(heldMessage, history.field());
            return trailers;
        }
        try {
            return withHistory(History.truncate(history.history(), Carrier.MAX_TRAILER_BYTES), trailers);
        } catch (WireError e) {
            return trailers; // a callee's history cannot be decoded
        }
    }

    /** Copies the trailers, because the application may share them. */
    private static Metadata withHistory(byte[] history, Metadata trailers) {
        if (history == null) {
            return trailers;
        }
        Metadata out = new Metadata();
        out.merge(trailers);
        out.discardAll(GrpcKeys.CARRIER);
        out.put(GrpcKeys.CARRIER, history);
        return out;
    }

    private void sendHeldMessage() {
        R message = heldMessage;
        heldMessage = null;
        if (message != null) {
            super.sendMessage(message);
        }
    }

    /**
     * Closes the call after the application threw. The library would close it with UNKNOWN too, but without the
     * history.
     */
    void closeAfter(Throwable error) {
        if (state == State.CLOSED) {
            return;
        }
        try {
            close(Status.UNKNOWN.withDescription("Application error processing RPC").withCause(error), new Metadata());
        } catch (RuntimeException e) {
            // the library closes the call
        }
    }

    /** Finishes the scope after the client canceled the call. */
    void cancel() {
        synchronized (this) {
            state = State.CLOSED;
        }
        scope.finish(scope.now(), Status.Code.CANCELLED.value(), exportedName());
    }
}

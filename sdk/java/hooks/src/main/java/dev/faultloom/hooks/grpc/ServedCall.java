package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.Ended;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Accept;
import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.History;
import dev.faultloom.wire.WireError;
import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.Status;

/**
 * The answer to one request, with the history if there is a scope. The only message of a call that is no stream is held back until the
 * application has finished: the library sends it no earlier anyway, and only then the history is known.
 */
final class ServedCall<Q, R> extends SimpleForwardingServerCall<Q, R> {
    private final boolean takesFields; // this server does
    private Scope scope; // null: none so far
    private boolean stream;
    private boolean field;
    private boolean found; // a field in this request's message would have been
    private boolean passed; // an answer without a scope has begun
    private R held;
    private volatile boolean closed;

    ServedCall(ServerCall<Q, R> call, boolean takesFields) {
        super(call);
        this.takesFields = takesFields;
    }

    /** One that has begun before is as if it had not: who passes metadata on does not know that he does. */
    void begin(Scope begun) {
        if (scope != null) {
            scope.discard();
        }
        scope = begun;
        ServerCall<Q, R> call = delegate();
        stream = !call.getMethodDescriptor().getType().clientSendsOneMessage()
                || !call.getMethodDescriptor().getType().serverSendsOneMessage();
        field = begun.answers() && (begun.envelope().hop.accept & Accept.FIELD) != 0
                && begun.envelope().hop.receiveLimit != 0 && Appended.possible(call, call.getMethodDescriptor());
    }

    /** The request's message is there; {@code found}: a field in it would have been found. */
    void arrived(boolean found) {
        this.found = found;
    }

    /** Whether it is too late for a scope to begin. */
    boolean answered() {
        return passed || closed || held != null;
    }

    @Override
    public void sendMessage(R message) {
        if (scope == null) {
            passed = true;
            super.sendMessage(message);
        } else if (stream) {
            super.sendMessage(withPiece(message));
        } else if (held == null) {
            held = message;
        } else {
            sendHeld(); // one too many: the library knows what to say
            super.sendMessage(message);
        }
    }

    private R withPiece(R message) {
        int length = field ? Appended.length(message) : -1;
        byte[] piece = length < 0 ? null : scope.nextPiece(length, Integer.MAX_VALUE);
        return piece == null ? message : Appended.append(message, Carrier.field(piece));
    }

    @Override
    public void close(Status status, Metadata trailers) {
        if (closed || scope == null) {
            passed = true;
            super.close(status, trailers);
            return;
        }
        closed = true;
        Metadata out = trailers;
        int code = status.getCode().value();
        if (!scope.answers()) {
            scope.finish(scope.now(), code, name());
        } else if (stream) {
            out = with(scope.lastPiece(scope.now(), code), trailers);
        } else if (status.isOk() && held == null && getMethodDescriptor().getType().serverSendsOneMessage()) {
            scope.finish(scope.now(), Status.Code.INTERNAL.value(), ""); // the library will say so: nothing was answered
        } else {
            out = answer(status, trailers);
        }
        sendHeld();
        super.close(status, out);
    }

    /** What is exported has no caller that names the call. */
    private String name() {
        return scope.answers() ? "" : "/" + getMethodDescriptor().getFullMethodName();
    }

    private Metadata answer(Status status, Metadata trailers) {
        if (takesFields && found && Appended.direct(delegate())) {
            scope.takesField();
        }
        Ended ended = scope.finishLater(scope.now(), status.getCode().value());
        if (ended == null) {
            return trailers;
        }
        int length = field && status.isOk() ? Appended.length(held) : -1;
        if (length >= 0 && ended.length() <= History.MAX_BYTES
                && Long.compareUnsigned((long) length + ended.fieldLength(), scope.envelope().hop.receiveLimit) <= 0) {
            held = Appended.append(held, ended.field());
            return trailers;
        }
        try {
            return with(History.truncate(ended.history(), Carrier.MAX_TRAILER_BYTES), trailers);
        } catch (WireError e) {
            return trailers; // not even the answer fits
        }
    }

    /** A copy: what the application hands over may be shared. */
    private static Metadata with(byte[] carried, Metadata trailers) {
        if (carried == null) {
            return trailers;
        }
        Metadata out = new Metadata();
        out.merge(trailers);
        out.discardAll(GrpcKeys.CARRIER);
        out.put(GrpcKeys.CARRIER, carried);
        return out;
    }

    private void sendHeld() {
        R message = held;
        held = null;
        if (message != null) {
            super.sendMessage(message);
        }
    }

    /** The application has thrown. The library answers UNKNOWN below us; answered here, the history goes along. */
    void thrown(Throwable error) {
        if (closed) {
            return;
        }
        try {
            close(Status.UNKNOWN.withDescription("Application error processing RPC").withCause(error), new Metadata());
        } catch (RuntimeException e) {
            // then the library answers
        }
    }

    /** Nobody waits for the answer any more. */
    void cancelled() {
        closed = true;
        scope.finish(scope.now(), Status.Code.CANCELLED.value(), name());
    }
}

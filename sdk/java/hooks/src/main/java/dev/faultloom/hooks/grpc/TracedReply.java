package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.Call;
import dev.faultloom.scope.Current;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.History;
import dev.faultloom.wire.Kind;
import dev.faultloom.wire.WireError;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;

/**
 * What comes back to one call, on its way to the application. The end is recorded before the application can know of it:
 * what it does next may depend on it. So the one message of a call that is no stream waits for the end, even if it brought
 * the history along: its status may still be lost.
 */
final class TracedReply<R> extends ClientCall.Listener<R> {
    final ReplyMarshaller<R> marshaller;
    Seen seen;
    boolean field; // the envelope went out in one

    private final Scope scope;
    private final Call call;
    private final String method;
    private final Callees callees;
    private final boolean stream;
    private final boolean lost;
    private final ClientCall.Listener<R> application;
    private final Runnable cancel;
    private R waiting;
    private boolean closed;

    /** {@code cancel}: ends the library's call. */
    TracedReply(Scope scope, Call call, MethodDescriptor<?, R> method, ClientCall.Listener<R> application, Runnable cancel, Callees callees) {
        Kind kind = call.fault == null ? null : call.fault.kind;
        this.marshaller = new ReplyMarshaller<>(method.getResponseMarshaller(), kind);
        this.scope = scope;
        this.call = call;
        this.method = method.getFullMethodName();
        this.callees = callees;
        this.stream = !method.getType().clientSendsOneMessage() || !method.getType().serverSendsOneMessage();
        this.lost = kind == Kind.LOST_REPLY;
        this.application = application;
        this.cancel = cancel;
        if (stream) {
            scope.opened(call.number, () -> marshaller.history(call.id));
        }
    }

    @Override
    public void onHeaders(Metadata headers) {
        if (!lost && !closed) {
            try (Current.Binding ignored = Current.bind(scope)) {
                application.onHeaders(headers);
            }
        }
    }

    @Override
    public void onMessage(R message) {
        if (closed) {
            return;
        }
        if (!stream) {
            waiting = message;
            return;
        }
        if (lost) {
            lose();
            cancel.run();
            return;
        }
        try (Current.Binding ignored = Current.bind(scope)) {
            application.onMessage(message);
        }
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
        if (closed) {
            return;
        }
        boolean told = take(trailers);
        byte[] history = marshaller.history(call.id);
        boolean gap = history == null;
        boolean spoiled = marshaller.spoiled(); // the library's complaint follows from the fault
        boolean replied = status.isOk() || told || seen.answered() || spoiled;
        learn(replied, history);
        if (lost && replied) {
            lose();
            return;
        }
        int code = spoiled ? 0 : status.getCode().value();
        if (replied) {
            scope.reply(scope.now(), call.number, code, history, gap);
        } else {
            scope.failed(scope.now(), call.number, code, history, gap);
        }
        R message = waiting;
        waiting = null;
        if (message != null) {
            try (Current.Binding ignored = Current.bind(scope)) {
                application.onMessage(message);
            }
        }
        close(status, trailers);
    }

    /** Notes where the next call to this method is to have its envelope. */
    private void learn(boolean replied, byte[] history) {
        if (stream) {
            return;
        }
        if (!replied) {
            if (field) {
                callees.lost(method);
            }
        } else if (history != null && answers(history)) {
            callees.told(method, History.takesField(history, 0, history.length));
        } else if (field) {
            callees.silent(method);
        }
    }

    private void lose() {
        byte[] history = marshaller.history(call.id);
        scope.failed(scope.now(), call.number, Status.Code.UNAVAILABLE.value(), history, history == null);
        close(Outcome.of(call.fault, ""), new Metadata());
    }

    /**
     * Takes histories out of the trailers; those of other calls, passed on by the application, are not ours to read. Whether
     * there were any: then the callee has answered.
     */
    private boolean take(Metadata trailers) {
        Iterable<byte[]> found = trailers.removeAll(GrpcKeys.CARRIER);
        if (found == null) {
            return false;
        }
        byte[] other = null;
        for (byte[] value : found) {
            if (value.length > 0 && (value[0] & 0xFF) == 0x81 || answers(value)) {
                marshaller.take(value);
                return true;
            }
            other = value;
        }
        marshaller.take(other); // its wrong id makes a gap
        return true;
    }

    private boolean answers(byte[] history) {
        try {
            return History.callOf(history, 0, history.length) == call.id;
        } catch (WireError e) {
            return false;
        }
    }

    /** The application gives the call up. */
    void cancelled() {
        if (field && !closed) {
            callees.lost(method); // at once: its next call may follow before the library has ended this one
        }
        byte[] history = marshaller.history(call.id);
        scope.failed(scope.now(), call.number, Status.Code.CANCELLED.value(), history, history == null);
    }

    void close(Status status, Metadata trailers) {
        if (closed) {
            return;
        }
        closed = true;
        try (Current.Binding ignored = Current.bind(scope)) {
            application.onClose(status, trailers);
        }
    }

    @Override
    public void onReady() {
        if (!closed) {
            try (Current.Binding ignored = Current.bind(scope)) {
                application.onReady();
            }
        }
    }
}

package dev.faultloom.hooks.grpc;

import dev.faultloom.hooks.faults.CallEnd;
import dev.faultloom.hooks.faults.CallResult;
import dev.faultloom.hooks.faults.FaultEffect;
import dev.faultloom.hooks.faults.Faults;
import dev.faultloom.hooks.faults.Outcome;
import dev.faultloom.hooks.faults.Protocol;
import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.OutgoingCall;
import dev.faultloom.scope.Scope;
import dev.faultloom.scope.ScopeContext;
import dev.faultloom.wire.History;
import dev.faultloom.wire.Piece;
import dev.faultloom.wire.WireError;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;

/**
 * Passes the reply to one call to the application. It records the end of the call before the application observes it,
 * because the application's next call may depend on the history. Therefore the message of a unary reply waits for the
 * status, even if the message carried the history: the status may still be an error.
 */
final class TracedClientListener<R> extends ClientCall.Listener<R> {
    final ReplyMarshaller<R> marshaller;
    TrailerTracer trailerTracer;
    boolean sentInField; // the envelope

    private final Scope scope;
    private final ScopeContext scopeContext;
    private final OutgoingCall call;
    private final FaultEffect effect;
    private final String method;
    private final FieldSupport fieldSupport;
    private final boolean isStream;
    private final ClientCall.Listener<R> application;
    private final Runnable cancelLibraryCall;
    private R waitingMessage;
    private boolean closed; // for the application

    TracedClientListener(Scope scope, ScopeContext scopeContext, OutgoingCall call, FaultEffect effect, MethodDescriptor<?, R> method,
            ClientCall.Listener<R> application, Runnable cancelLibraryCall, FieldSupport fieldSupport) {
        this.marshaller = new ReplyMarshaller<>(method.getResponseMarshaller(), scope, call.number, effect);
        this.scope = scope;
        this.scopeContext = scopeContext;
        this.call = call;
        this.effect = effect;
        this.method = method.getFullMethodName();
        this.fieldSupport = fieldSupport;
        this.isStream = !method.getType().clientSendsOneMessage() || !method.getType().serverSendsOneMessage();
        this.application = application;
        this.cancelLibraryCall = cancelLibraryCall;
        if (isStream) {
            scope.openStream(call.number);
        }
    }

    @Override
    public void onHeaders(Metadata headers) {
        if (!effect.losesReply() && !closed) {
            try (CurrentScope.Binding ignored = scopeContext.bind()) {
                application.onHeaders(headers);
            }
        }
    }

    @Override
    public void onMessage(R message) {
        if (closed) {
            return;
        }
        if (!isStream) {
            waitingMessage = message;
            return;
        }
        if (effect.losesReply()) {
            byte[] history = marshaller.history();
            end(CallResult.reply(0, history != null), history, Status.OK, new Metadata());
            cancelLibraryCall.run();
            return;
        }
        try (CurrentScope.Binding ignored = scopeContext.bind()) {
            application.onMessage(message);
        }
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
        if (closed) {
            return;
        }
        boolean foundHistory = takeHistories(trailers);
        byte[] history = marshaller.history();
        // a parse error that a fault caused is reported by the library as the status
        boolean madeUnreadable = marshaller.madeUnreadable();
        boolean isReply = status.isOk() || foundHistory || trailerTracer.receivedTrailers() || madeUnreadable;
        updateFieldSupport(isReply, history);
        int code = madeUnreadable ? 0 : status.getCode().value();
        boolean hasHistory = history != null;
        end(isReply ? CallResult.reply(code, hasHistory) : CallResult.failure(code, hasHistory), history, status, trailers);
    }

    /** Records the end of the call and passes it to the application: the status, or that a fault lost the reply. */
    private void end(CallResult result, byte[] history, Status status, Metadata trailers) {
        CallEnd end = Faults.replyEffect(Protocol.GRPC, call.fault, result);
        end.record(scope, call.number, history);
        R message = waitingMessage;
        waitingMessage = null;
        if (end.outcome == Outcome.RESET) {
            close(FaultStatus.LOST_REPLY, new Metadata());
            return;
        }
        if (message != null) { // the marshaller has changed it if the fault demands it
            try (CurrentScope.Binding ignored = scopeContext.bind()) {
                application.onMessage(message);
            }
        }
        close(status, trailers);
    }

    /** Updates whether the next call to this method may carry its envelope in a field. */
    private void updateFieldSupport(boolean isReply, byte[] history) {
        if (isStream) {
            return;
        }
        if (!isReply) {
            if (sentInField) {
                fieldSupport.fieldCallFailed(method);
            }
        } else if (history != null && belongsToCall(history)) {
            fieldSupport.historyReceived(method, History.takesField(history, 0, history.length));
        } else if (sentInField) {
            fieldSupport.fieldCallWithoutHistory(method);
        }
    }

    /**
     * Removes histories from the trailers. The last value counts, because the callee may have forwarded earlier ones;
     * the whole history of a message takes precedence. Whether there were any.
     */
    private boolean takeHistories(Metadata trailers) {
        byte[] last = trailers.get(GrpcKeys.CARRIER);
        if (last == null) {
            return false;
        }
        trailers.discardAll(GrpcKeys.CARRIER);
        if (isStream || marshaller.history() == null) {
            marshaller.addHistory(last);
        }
        return true;
    }

    private boolean belongsToCall(byte[] history) {
        try {
            return History.readCallId(history, 0, history.length) == call.id;
        } catch (WireError e) {
            return false;
        }
    }

    /** Records that the application canceled the call. */
    void recordCancellation() {
        if (sentInField && !closed) {
            // now, because the next call may start before the library closes this one
            fieldSupport.fieldCallFailed(method);
        }
        byte[] history = marshaller.history();
        scope.recordFailure(scope.now(), call.number, Status.Code.CANCELLED.value(), history, history == null);
    }

    void close(Status status, Metadata trailers) {
        if (closed) {
            return;
        }
        closed = true;
        try (CurrentScope.Binding ignored = scopeContext.bind()) {
            application.onClose(status, trailers);
        }
    }

    @Override
    public void onReady() {
        if (!closed) {
            try (CurrentScope.Binding ignored = scopeContext.bind()) {
                application.onReady();
            }
        }
    }
}

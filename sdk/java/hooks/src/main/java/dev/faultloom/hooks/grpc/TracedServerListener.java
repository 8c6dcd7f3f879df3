package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.IncomingRequest;
import dev.faultloom.scope.Process;
import dev.faultloom.scope.Scope;
import dev.faultloom.scope.ScopeContext;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;

/** Runs the application's callbacks for one request inside its scope, which may begin with the request's message. */
final class TracedServerListener<Q> extends ServerCall.Listener<Q> {
    private final TracedServerCall<Q, ?> call;
    private final Process process; // null: messages carry no envelope
    private final Metadata headers;
    private Scope scope; // null: not traced so far
    private final ScopeContext untraced = ScopeContext.untraced();
    private Context context; // null: not needed so far
    private ServerCall.Listener<Q> application;

    /**
     * @param agent threads propagate the scope. Without the agent, {@code io.grpc.Context} does, from before the call
     *     starts, because the scope may begin later.
     */
    TracedServerListener(TracedServerCall<Q, ?> call, Process process, Metadata headers, boolean agent) {
        this.call = call;
        this.process = process;
        this.headers = headers;
        this.context = agent ? null : GrpcScopes.contextOf(this);
    }

    Scope scope() {
        return scope;
    }

    /** The context of the request if it has no scope. */
    ScopeContext untraced() {
        return untraced;
    }

    void begin(Scope newScope) {
        scope = newScope;
        if (context == null) {
            context = GrpcScopes.contextOf(this);
        }
        call.begin(newScope);
    }

    /** The request is not traced after all. Calls that it has already made belong to no scope. */
    private void end() {
        scope = null;
        call.end();
    }

    <R> void start(ServerCallHandler<Q, R> next, TracedServerCall<Q, R> traced) {
        if (scope != null) {
            run(() -> application = next.startCall(traced, headers));
        } else if (context == null) {
            runUntraced(() -> application = next.startCall(traced, headers));
        } else {
            Context previous = context.attach();
            try {
                runUntraced(() -> application = next.startCall(traced, headers));
            } finally {
                context.detach(previous);
            }
        }
    }

    private void run(Runnable step) {
        Context previous = context.attach();
        try (CurrentScope.Binding ignored = CurrentScope.bind(scope)) {
            step.run();
        } catch (RuntimeException | Error e) {
            call.closeAfter(e);
            throw e;
        } finally {
            context.detach(previous);
        }
    }

    private void runUntraced(Runnable step) {
        runUntraced(untraced, step);
    }

    /** Runs the application for a request that is not traced: its calls belong to it. */
    static void runUntraced(ScopeContext request, Runnable step) {
        if (!Scope.anyUnfinished()) {
            step.run();
            return;
        }
        try (CurrentScope.Binding ignored = request.bind()) {
            step.run();
        }
    }

    /** Removes the envelope from a message and begins its scope. */
    private Q openScope(Q message) {
        try {
            call.requestArrived(RequestEnvelope.isReadable(message));
            RequestEnvelope<Q> request = RequestEnvelope.of(message);
            if (request == null || process.isInactive()) { // in this order: the second check reads the clock
                return message;
            }
            if (call.canBegin()) {
                Scope opened = process.openScope(IncomingRequest.grpcField(
                        request.envelope, name -> GrpcKeys.joinedValues(headers, GrpcKeys.named(name))));
                if (opened != null) {
                    begin(opened);
                } else if (scope != null && !scope.isSampled()) {
                    end(); // the metadata belongs to another request, whose envelope the client forwarded
                }
            }
            return request.message;
        } catch (RuntimeException | LinkageError e) {
            return message; // an error of ours must not prevent the request
        }
    }

    @Override
    public void onMessage(Q message) {
        Q clean = process == null ? message : openScope(message);
        if (scope == null) {
            runUntraced(() -> application.onMessage(clean));
        } else {
            run(() -> application.onMessage(clean));
        }
    }

    @Override
    public void onHalfClose() {
        if (scope == null) {
            runUntraced(application::onHalfClose);
        } else {
            run(application::onHalfClose);
        }
    }

    @Override
    public void onCancel() {
        if (scope == null) {
            runUntraced(application::onCancel);
            untraced.end();
        } else {
            call.cancel();
            run(application::onCancel);
        }
    }

    @Override
    public void onComplete() {
        if (scope == null) {
            runUntraced(application::onComplete);
            untraced.end();
        } else {
            run(application::onComplete);
        }
    }

    @Override
    public void onReady() {
        if (scope == null) {
            runUntraced(application::onReady);
        } else {
            run(application::onReady);
        }
    }
}

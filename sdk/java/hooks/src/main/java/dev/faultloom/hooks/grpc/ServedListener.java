package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.Current;
import dev.faultloom.scope.Process;
import dev.faultloom.scope.Scope;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;

/** Runs everything that the application does for one request inside its scope, if there is or comes one. */
final class ServedListener<Q> extends ServerCall.Listener<Q> {
    private final ServedCall<Q, ?> call;
    private final Process process; // null: messages bring no envelope
    private final Metadata headers;
    private Scope scope; // null: none so far
    private Context context; // null: not needed so far
    private ServerCall.Listener<Q> application;

    /** {@code agent}: threads hand the scope on; else contexts that the application makes of ours do, also of a scope that comes later. */
    ServedListener(ServedCall<Q, ?> call, Process process, Metadata headers, boolean agent) {
        this.call = call;
        this.process = process;
        this.headers = headers;
        this.context = agent ? null : Scopes.with(this);
    }

    Scope scope() {
        return scope;
    }

    void begin(Scope begun) {
        scope = begun;
        if (context == null) {
            context = Scopes.with(this);
        }
        call.begin(begun);
    }

    <R> void start(ServerCallHandler<Q, R> next, ServedCall<Q, R> served) {
        if (scope != null) {
            run(() -> application = next.startCall(served, headers));
        } else if (context == null) {
            application = next.startCall(served, headers);
        } else {
            Context before = context.attach();
            try {
                application = next.startCall(served, headers);
            } finally {
                context.detach(before);
            }
        }
    }

    private void run(Runnable step) {
        Context before = context.attach();
        try (Current.Binding ignored = Current.bind(scope)) {
            step.run();
        } catch (RuntimeException | Error e) {
            call.thrown(e);
            throw e;
        } finally {
            context.detach(before);
        }
    }

    /** The message without the envelope that it brought, which begins the scope. */
    private Q arrived(Q message) {
        try {
            call.arrived(Arrived.possible(message));
            Arrived<Q> arrived = Arrived.of(message);
            if (arrived == null || process.deaf()) { // nearly always the first, and the second reads the clock
                return message;
            }
            if (!call.answered()) {
                Scope begun = process.openField(arrived.envelope, name -> GrpcKeys.joined(headers, GrpcKeys.named(name)));
                if (begun != null) {
                    begin(begun);
                }
            }
            return arrived.message;
        } catch (RuntimeException | LinkageError e) {
            return message; // whatever is wrong with it, the request is to be served
        }
    }

    @Override
    public void onMessage(Q message) {
        Q own = process == null ? message : arrived(message);
        if (scope == null) {
            application.onMessage(own);
        } else {
            run(() -> application.onMessage(own));
        }
    }

    @Override
    public void onHalfClose() {
        if (scope == null) {
            application.onHalfClose();
        } else {
            run(application::onHalfClose);
        }
    }

    @Override
    public void onCancel() {
        if (scope == null) {
            application.onCancel();
        } else {
            call.cancelled();
            run(application::onCancel);
        }
    }

    @Override
    public void onComplete() {
        if (scope == null) {
            application.onComplete();
        } else {
            run(application::onComplete);
        }
    }

    @Override
    public void onReady() {
        if (scope == null) {
            application.onReady();
        } else {
            run(application::onReady);
        }
    }
}

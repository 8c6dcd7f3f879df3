package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.Current;
import dev.faultloom.scope.Scope;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;

/** Runs everything that the application does for one request inside its scope. */
final class ServedListener<Q> extends ServerCall.Listener<Q> {
    private final Context context;
    private final Scope scope;
    private final ServedCall<Q, ?> call;
    private ServerCall.Listener<Q> application;

    ServedListener(Context context, Scope scope, ServedCall<Q, ?> call) {
        this.context = context;
        this.scope = scope;
        this.call = call;
    }

    <R> void start(ServerCallHandler<Q, R> next, ServedCall<Q, R> served, Metadata headers) {
        run(() -> application = next.startCall(served, headers));
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

    @Override
    public void onMessage(Q message) {
        run(() -> application.onMessage(message));
    }

    @Override
    public void onHalfClose() {
        run(application::onHalfClose);
    }

    @Override
    public void onCancel() {
        call.cancelled();
        run(application::onCancel);
    }

    @Override
    public void onComplete() {
        run(application::onComplete);
    }

    @Override
    public void onReady() {
        run(application::onReady);
    }
}

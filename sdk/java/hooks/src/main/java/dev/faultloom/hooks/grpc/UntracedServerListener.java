package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.ScopeContext;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;

/** Runs the application's callbacks for a request that is not traced, so that no scope counts its calls. */
final class UntracedServerListener<Q> extends SimpleForwardingServerCallListener<Q> {
    private final ScopeContext request;

    private UntracedServerListener(ServerCall.Listener<Q> application, ScopeContext request) {
        super(application);
        this.request = request;
    }

    static <Q, R> ServerCall.Listener<Q> start(ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
        ScopeContext request = ScopeContext.untraced();
        Object[] started = new Object[1];
        TracedServerListener.runUntraced(request, () -> started[0] = next.startCall(call, headers));
        @SuppressWarnings("unchecked")
        ServerCall.Listener<Q> application = (ServerCall.Listener<Q>) started[0];
        return new UntracedServerListener<>(application, request);
    }

    @Override
    public void onMessage(Q message) {
        TracedServerListener.runUntraced(request, () -> super.onMessage(message));
    }

    @Override
    public void onHalfClose() {
        TracedServerListener.runUntraced(request, super::onHalfClose);
    }

    @Override
    public void onCancel() {
        TracedServerListener.runUntraced(request, super::onCancel);
        request.end();
    }

    @Override
    public void onComplete() {
        TracedServerListener.runUntraced(request, super::onComplete);
        request.end();
    }

    @Override
    public void onReady() {
        TracedServerListener.runUntraced(request, super::onReady);
    }
}

package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.Process;
import dev.faultloom.scope.Scope;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;

/** The receiving side: the outermost interceptor of a server. Requests without an accepted envelope pass as they are. */
public final class ServerHook implements ServerInterceptor {
    private final Process process;

    public ServerHook(Process process) {
        this.process = process;
    }

    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
        Scope scope = open(headers);
        if (scope == null) {
            return next.startCall(call, headers);
        }
        Context context = Scopes.with(scope);
        ServedCall<Q, R> served = new ServedCall<>(call, scope);
        ServedListener<Q> listener = new ServedListener<>(context, scope, served);
        listener.start(next, served, headers);
        return listener;
    }

    private Scope open(Metadata headers) {
        try {
            byte[] envelope = headers.get(GrpcKeys.CARRIER); // the last: a proxy may pass its own on before it
            if (envelope == null && process.deaf()) {
                return null;
            }
            Scope scope = process.openGrpc(envelope, name -> GrpcKeys.joined(headers, GrpcKeys.named(name)));
            if (envelope != null && !process.deaf()) {
                headers.discardAll(GrpcKeys.CARRIER); // accepted or refused, nobody passes it on as his own
            }
            return scope;
        } catch (RuntimeException e) {
            return null; // whatever is wrong with it, the request is to be served
        }
    }
}

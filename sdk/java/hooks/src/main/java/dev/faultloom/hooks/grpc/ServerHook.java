package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.IncomingRequest;
import dev.faultloom.scope.Process;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Carrier;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;

/**
 * The server hook: the outermost interceptor of a server. An envelope in metadata begins the scope before the
 * application is called; an envelope in a field begins it when the message has arrived.
 */
public final class ServerHook implements ServerInterceptor {
    /** The library's default limit for received messages, in bytes. */
    public static final int DEFAULT_RECEIVE_LIMIT = 4 << 20;

    private final Process process;
    private final boolean acceptsFields;
    private final boolean agent;
    private final boolean isSampling;

    /**
     * @param receiveLimit largest message that the server can receive, in bytes; 0: unknown, so it does not announce
     *     fields
     * @param agent the agent is installed and propagates scopes between threads
     */
    public ServerHook(Process process, int receiveLimit, boolean agent) {
        this.process = process;
        this.acceptsFields = receiveLimit >= Carrier.MIN_RECEIVE_LIMIT;
        this.agent = agent;
        this.isSampling = process.isSampling();
    }

    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
        Scope scope = open(headers);
        MethodDescriptor<Q, R> method = call.getMethodDescriptor();
        boolean readsFields = method.getType() == MethodDescriptor.MethodType.UNARY && RequestEnvelope.isReadable(method.getRequestMarshaller());
        if (scope == null && !readsFields) {
            return UntracedServerListener.start(call, headers, next);
        }
        TracedServerCall<Q, R> traced = new TracedServerCall<>(call, acceptsFields);
        TracedServerListener<Q> listener = new TracedServerListener<>(traced, readsFields ? process : null, headers, agent);
        if (scope != null) {
            listener.begin(scope);
        }
        listener.start(next, traced);
        return listener;
    }

    private Scope open(Metadata headers) {
        try {
            byte[] envelope = headers.get(GrpcKeys.CARRIER); // the last value: a proxy may forward an earlier one
            if (envelope == null && !isSampling && !headers.containsKey(GrpcKeys.BAGGAGE) || process.isInactive()) {
                return null; // the first condition covers most requests, and the second reads the clock
            }
            Scope scope = process.openScope(IncomingRequest.grpc(
                    envelope, name -> GrpcKeys.joinedValues(headers, GrpcKeys.named(name))));
            if (envelope != null) {
                headers.discardAll(GrpcKeys.CARRIER); // accepted or rejected, the application must not forward it
            }
            return scope;
        } catch (RuntimeException e) {
            return null; // an error of ours must not prevent the request
        }
    }
}

package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.Process;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Carrier;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;

/**
 * The receiving side: the outermost interceptor of a server. An envelope in metadata begins the scope before anything else
 * happens, one in a message when the message is there. Streams without an envelope pass as they are.
 */
public final class ServerHook implements ServerInterceptor {
    /** The library's own limit for messages it receives. */
    public static final int DEFAULT_RECEIVE_LIMIT = 4 << 20;

    private final Process process;
    private final boolean takesFields;
    private final boolean agent;
    private final boolean draws;

    /**
     * @param receiveLimit bytes that the server can receive in one message; 0: unknown, then it does not ask for fields
     * @param agent threads hand scopes on by themselves
     */
    public ServerHook(Process process, int receiveLimit, boolean agent) {
        this.process = process;
        this.takesFields = receiveLimit >= Carrier.MIN_RECEIVE_LIMIT;
        this.agent = agent;
        this.draws = process.entry().draws();
    }

    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
        Scope scope = open(headers);
        MethodDescriptor<Q, R> method = call.getMethodDescriptor();
        boolean looks = method.getType() == MethodDescriptor.MethodType.UNARY && Arrived.possible(method.getRequestMarshaller());
        if (scope == null && !looks) {
            return next.startCall(call, headers);
        }
        ServedCall<Q, R> served = new ServedCall<>(call, takesFields);
        ServedListener<Q> listener = new ServedListener<>(served, looks ? process : null, headers, agent);
        if (scope != null) {
            listener.begin(scope);
        }
        listener.start(next, served);
        return listener;
    }

    private Scope open(Metadata headers) {
        try {
            byte[] envelope = headers.get(GrpcKeys.CARRIER); // the last: a proxy may pass its own on before it
            if (envelope == null && !draws && !headers.containsKey(GrpcKeys.BAGGAGE) || process.deaf()) {
                return null; // the first is what most requests are like
            }
            Scope scope = process.openGrpc(envelope, name -> GrpcKeys.joined(headers, GrpcKeys.named(name)));
            if (envelope != null) {
                headers.discardAll(GrpcKeys.CARRIER); // accepted or refused, nobody passes it on as his own
            }
            return scope;
        } catch (RuntimeException e) {
            return null; // whatever is wrong with it, the request is to be served
        }
    }
}

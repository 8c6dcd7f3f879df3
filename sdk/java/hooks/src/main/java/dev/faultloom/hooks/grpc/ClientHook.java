package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.Scope;
import dev.faultloom.scope.ScopeContext;
import dev.faultloom.scope.UnscopedCalls;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.MethodDescriptor;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;

/** The client hook: the innermost interceptor of a channel. Calls without a scope pass unchanged. */
public final class ClientHook implements ClientInterceptor {
    /** The library's default limit for received messages, in bytes. */
    public static final int DEFAULT_RECEIVE_LIMIT = 4 << 20;

    private final int receiveLimit;
    private final Map<Channel, FieldSupport> fieldSupports = Collections.synchronizedMap(new WeakHashMap<>());
    private volatile FieldSupport latest; // usually an interceptor belongs to one channel

    /**
     * @param receiveLimit largest message that the channel can receive, in bytes; 0: unknown, so replies carry no field
     */
    public ClientHook(int receiveLimit) {
        this.receiveLimit = receiveLimit;
    }

    @Override
    public <Q, R> ClientCall<Q, R> interceptCall(MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
        ScopeContext context = GrpcScopes.current();
        Scope scope = context == null ? null : context.scope();
        if (scope == null) {
            if (UnscopedCalls.counts(context)) {
                UnscopedCalls.addGrpc(next.authority(), "/" + method.getFullMethodName());
            }
            return next.newCall(method, options);
        }
        Integer callLimit = options.getMaxInboundMessageSize();
        return new TracedClientCall<>(scope, context, method, options, next, callLimit == null ? receiveLimit : callLimit, fieldSupport(next));
    }

    private FieldSupport fieldSupport(Channel channel) {
        FieldSupport support = latest;
        if (support == null || !support.belongsTo(channel)) {
            latest = support = fieldSupports.computeIfAbsent(channel, FieldSupport::new);
        }
        return support;
    }
}

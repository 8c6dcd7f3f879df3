package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.Scope;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.MethodDescriptor;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;

/** The sending side: the innermost interceptor of a channel. Outside a scope calls pass as they are. */
public final class ClientHook implements ClientInterceptor {
    /** The library's own limit for messages it receives. */
    public static final int DEFAULT_RECEIVE_LIMIT = 4 << 20;

    private final int receiveLimit;
    private final Map<Channel, Callees> callees = Collections.synchronizedMap(new WeakHashMap<>());
    private volatile Callees latest; // an interceptor serves one channel, unless an application gives it to more

    /** {@code receiveLimit}: bytes that the channel can receive in one message; 0: unknown, then replies carry no field. */
    public ClientHook(int receiveLimit) {
        this.receiveLimit = receiveLimit;
    }

    @Override
    public <Q, R> ClientCall<Q, R> interceptCall(MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
        Scope scope = Scopes.current();
        if (scope == null) {
            return next.newCall(method, options);
        }
        Integer own = options.getMaxInboundMessageSize();
        return new TracedCall<>(scope, method, options, next, own == null ? receiveLimit : own, callees(next));
    }

    private Callees callees(Channel channel) {
        Callees known = latest;
        if (known == null || !known.areOf(channel)) {
            latest = known = callees.computeIfAbsent(channel, Callees::new);
        }
        return known;
    }
}

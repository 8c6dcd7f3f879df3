package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.Call;
import dev.faultloom.scope.Current;
import dev.faultloom.scope.Scope;
import dev.faultloom.scope.Waits;
import dev.faultloom.wire.Kind;
import io.grpc.Attributes;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;

/**
 * One call inside a scope. What becomes of it is decided when it is started:
 *
 * <pre>
 * no fault; lost-, empty-, corrupt-reply   ──▶ the library's call
 * delay                                    ──▶ held ──time──▶ the library's call
 * hang                                     ──▶ held ──time──▶ ended
 * unavailable, reset, deadline, status     ──▶ ended
 * </pre>
 *
 * What the application does with a held call is kept, and done when it goes on.
 */
final class TracedCall<Q, R> extends ClientCall<Q, R> {
    private final Scope scope;
    private final MethodDescriptor<Q, R> method;
    private final CallOptions options;
    private final Channel channel;
    private final int receiveLimit;

    private Call call;
    private TracedReply<R> reply;
    private CompletableFuture<Boolean> wait;
    private volatile ClientCall<Q, R> library; // null: held, or ended without it
    private List<Runnable> held; // null: not held; guarded by this
    private volatile boolean lost; // cancelled by us, of which the application must not hear in another way

    TracedCall(Scope scope, MethodDescriptor<Q, R> method, CallOptions options, Channel channel, int receiveLimit) {
        this.scope = scope;
        this.method = method;
        this.options = options;
        this.channel = channel;
        this.receiveLimit = receiveLimit;
    }

    @Override
    public void start(Listener<R> listener, Metadata headers) {
        try {
            call = scope.sendGrpc(channel.authority(), "/" + method.getFullMethodName(), receiveLimit);
        } catch (RuntimeException e) {
            call = null; // whatever is wrong, the call is to be made
        }
        if (call == null) { // the scope has answered
            library = channel.newCall(method, options);
            library.start(listener, headers);
            return;
        }
        reply = new TracedReply<>(scope, call, method, listener, this::cancelLibrary);
        Kind kind = call.fault == null ? null : call.fault.kind;
        if (kind == Kind.DELAY || kind == Kind.HANG) {
            hold(kind, headers);
        } else if (kind == null || kind.calleeRuns()) {
            begin(headers);
        } else {
            end(Outcome.of(call.fault, channel.authority()), kind == Kind.STATUS);
        }
    }

    /** Starts the library's call, with the envelope. */
    private void begin(Metadata headers) {
        headers.discardAll(GrpcKeys.CARRIER); // one that the application passed on
        if (call.envelope != null) {
            headers.put(GrpcKeys.CARRIER, call.envelope);
        }
        if (call.bridged()) {
            bridge(headers);
        }
        Seen seen = new Seen();
        ClientCall<Q, R> made = channel.newCall(
                method.toBuilder(method.getRequestMarshaller(), reply.marshaller).build(), options.withStreamTracerFactory(seen));
        reply.seen = seen;
        made.start(reply, headers);
        library = made;
    }

    private void bridge(Metadata headers) {
        String parent = call.traceparent(headers.get(GrpcKeys.TRACEPARENT));
        String baggage = call.baggage(GrpcKeys.joined(headers, GrpcKeys.BAGGAGE));
        headers.discardAll(GrpcKeys.TRACEPARENT);
        headers.put(GrpcKeys.TRACEPARENT, parent);
        headers.discardAll(GrpcKeys.BAGGAGE);
        if (baggage != null) {
            headers.put(GrpcKeys.BAGGAGE, baggage);
        }
    }

    private void hold(Kind kind, Metadata headers) {
        held = new ArrayList<>();
        Context context = Context.current();
        wait = Waits.later(scope.process(), call.fault, remaining());
        wait.thenAcceptAsync(inTime -> context.run(() -> {
            if (inTime && kind == Kind.DELAY) {
                begin(headers);
                release();
            } else {
                end(Outcome.of(call.fault, channel.authority()), false);
            }
        }), ForkJoinPool.commonPool());
    }

    /** Nanoseconds until the caller's own deadline. */
    private long remaining() {
        Deadline own = options.getDeadline();
        Deadline around = Context.current().getDeadline();
        Deadline first = own == null ? around : around == null ? own : own.minimum(around);
        return first == null ? Long.MAX_VALUE : Math.max(0, first.timeRemaining(TimeUnit.NANOSECONDS));
    }

    /** Does what was held back, in its order, and lets everything further pass. */
    private void release() {
        while (true) {
            List<Runnable> now;
            synchronized (this) {
                now = held;
                if (now.isEmpty()) {
                    held = null;
                    return;
                }
                held = new ArrayList<>();
            }
            now.forEach(Runnable::run);
        }
    }

    /** Ends the call without the library, as it would: on the call's executor. */
    private void end(Status status, boolean answered) {
        if (answered) {
            scope.reply(scope.now(), call.number, call.fault.arg, null, false);
        } else {
            scope.failed(scope.now(), call.number, status.getCode().value(), null, false);
        }
        Executor executor = options.getExecutor() == null ? ForkJoinPool.commonPool() : options.getExecutor();
        Context context = Context.current();
        executor.execute(() -> context.run(() -> {
            try (Current.Binding ignored = Current.bind(scope)) {
                reply.close(status, new Metadata());
            }
        }));
    }

    private void cancelLibrary() {
        lost = true;
        ClientCall<Q, R> made = library;
        if (made != null) {
            made.cancel("the reply was lost", null);
        }
    }

    /** Whether an action has to wait; it is kept then. */
    private boolean keep(Runnable action) {
        if (wait == null) {
            return false;
        }
        synchronized (this) {
            if (held == null) {
                return false;
            }
            held.add(action);
            return true;
        }
    }

    @Override
    public void request(int messages) {
        if (!keep(() -> request(library, messages))) {
            request(library, messages);
        }
    }

    private static void request(ClientCall<?, ?> to, int messages) {
        if (to != null) {
            to.request(messages);
        }
    }

    @Override
    public void sendMessage(Q message) {
        if (!keep(() -> send(library, message))) {
            send(library, message);
        }
    }

    private void send(ClientCall<Q, R> to, Q message) {
        if (to != null) {
            unlessLost(() -> to.sendMessage(message));
        }
    }

    /** The library refuses what is done to a call after it was cancelled; after a reply was really lost it would not. */
    private void unlessLost(Runnable action) {
        try {
            action.run();
        } catch (IllegalStateException e) {
            if (!lost) {
                throw e;
            }
        }
    }

    @Override
    public void halfClose() {
        if (!keep(() -> halfClose(library))) {
            halfClose(library);
        }
    }

    private void halfClose(ClientCall<Q, R> to) {
        if (to != null) {
            unlessLost(to::halfClose);
        }
    }

    @Override
    public void cancel(String message, Throwable cause) {
        ClientCall<Q, R> to = library;
        if (reply != null) {
            reply.cancelled();
        }
        if (to != null) {
            to.cancel(message, cause);
        } else if (wait != null && wait.cancel(false)) {
            end(Status.CANCELLED.withDescription(message).withCause(cause), false);
        }
    }

    @Override
    public void setMessageCompression(boolean enabled) {
        if (!keep(() -> compress(library, enabled))) {
            compress(library, enabled);
        }
    }

    private static void compress(ClientCall<?, ?> to, boolean enabled) {
        if (to != null) {
            to.setMessageCompression(enabled);
        }
    }

    @Override
    public boolean isReady() {
        ClientCall<Q, R> to = library;
        return to != null && to.isReady();
    }

    @Override
    public Attributes getAttributes() {
        ClientCall<Q, R> to = library;
        return to == null ? Attributes.EMPTY : to.getAttributes();
    }
}

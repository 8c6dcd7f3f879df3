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
import io.grpc.MethodDescriptor.Marshaller;
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
 * What the application does with a held call is kept, and done when it goes on. A call whose envelope goes into a field
 * begins with its message: one that turns out to be too large takes the envelope along in metadata.
 */
final class TracedCall<Q, R> extends ClientCall<Q, R> {
    private final Scope scope;
    private final MethodDescriptor<Q, R> method;
    private final CallOptions options;
    private final Channel channel;
    private final int receiveLimit;
    private final Callees callees;

    private Call call;
    private TracedReply<R> reply;
    private CompletableFuture<Boolean> wait;
    private volatile ClientCall<Q, R> library; // null: held, waiting for its message, or ended without it
    private RequestMarshaller<Q> request; // null: not waiting for the message, nor was it
    private Waiting<Q, R> waiting; // guarded by this
    private List<Runnable> held; // null: not held; guarded by this
    private volatile boolean lost; // cancelled by us, of which the application must not hear in another way

    /** A call of the library that begins with its message, and what the application did with it until then. */
    private static final class Waiting<Q, R> {
        final ClientCall<Q, R> call;
        final Metadata headers;
        int requested;
        Boolean compression;
        boolean beginning;
        Runnable cancel;

        Waiting(ClientCall<Q, R> call, Metadata headers) {
            this.call = call;
            this.headers = headers;
        }
    }

    TracedCall(Scope scope, MethodDescriptor<Q, R> method, CallOptions options, Channel channel, int receiveLimit, Callees callees) {
        this.scope = scope;
        this.method = method;
        this.options = options;
        this.channel = channel;
        this.receiveLimit = receiveLimit;
        this.callees = callees;
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
        reply = new TracedReply<>(scope, call, method, listener, this::cancelLibrary, callees);
        Kind kind = call.fault == null ? null : call.fault.kind;
        if (kind == Kind.DELAY || kind == Kind.HANG) {
            hold(kind, headers);
        } else if (kind == null || kind.calleeRuns()) {
            begin(headers);
        } else {
            end(Outcome.of(call.fault, channel.authority()), kind == Kind.STATUS);
        }
    }

    /** Makes the library's call, and starts it unless its message is to be known before. */
    private void begin(Metadata headers) {
        Marshaller<Q> marshaller = method.getRequestMarshaller();
        if (mayTakeField()) {
            marshaller = request = new RequestMarshaller<>(marshaller);
        }
        Seen seen = new Seen();
        ClientCall<Q, R> made = channel.newCall(
                method.toBuilder(marshaller, reply.marshaller).build(), options.withStreamTracerFactory(seen));
        reply.seen = seen;
        if (request == null) {
            start(made, headers, call.envelope);
            return;
        }
        synchronized (this) {
            waiting = new Waiting<>(made, headers);
        }
    }

    private boolean mayTakeField() {
        return method.getType() == MethodDescriptor.MethodType.UNARY && receiveLimit > 0 && call.envelope != null && !call.bridged()
                && scope.envelope().signed.history && callees.takeField(method.getFullMethodName())
                && Appended.isLibrary(method.getRequestMarshaller());
    }

    /** Starts the library's call, with this envelope in metadata if it is not null. */
    private void start(ClientCall<Q, R> made, Metadata headers, byte[] envelope) {
        headers.discardAll(GrpcKeys.CARRIER); // one that the application passed on
        if (envelope != null) {
            headers.put(GrpcKeys.CARRIER, envelope);
        }
        if (call.bridged()) {
            bridge(headers);
        }
        made.start(reply, headers);
        library = made;
    }

    /** Starts a waiting call; null: there is no message. */
    private void startWith(Q message) {
        Waiting<Q, R> begun;
        synchronized (this) {
            begun = waiting;
            if (begun == null) {
                return;
            }
            begun.beginning = true;
        }
        boolean field = message != null && request.hasRoom(message);
        if (field) {
            request.append(call.envelope);
            reply.field = true;
        }
        start(begun.call, begun.headers, field ? null : call.envelope);
        synchronized (this) {
            waiting = null;
        }
        if (begun.compression != null) {
            begun.call.setMessageCompression(begun.compression);
        }
        if (begun.requested > 0) {
            begun.call.request(begun.requested);
        }
        if (begun.cancel != null) {
            begun.cancel.run();
        }
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
        if (!keep(() -> requestNow(messages))) {
            requestNow(messages);
        }
    }

    private void requestNow(int messages) {
        if (request != null) {
            synchronized (this) {
                if (waiting != null) {
                    waiting.requested += messages;
                    return;
                }
            }
        }
        ClientCall<Q, R> to = library;
        if (to != null) {
            to.request(messages);
        }
    }

    @Override
    public void sendMessage(Q message) {
        if (!keep(() -> send(message))) {
            send(message);
        }
    }

    private void send(Q message) {
        if (request != null) {
            startWith(message);
        }
        ClientCall<Q, R> to = library;
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
        if (!keep(this::halfCloseNow)) {
            halfCloseNow();
        }
    }

    private void halfCloseNow() {
        if (request != null) {
            startWith(null);
        }
        ClientCall<Q, R> to = library;
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
        } else if (wait != null && wait.cancel(false) || cancelWaiting(message, cause)) {
            end(Status.CANCELLED.withDescription(message).withCause(cause), false);
        }
    }

    /** Whether the library's call was waiting for its message; it never begins then. */
    private boolean cancelWaiting(String message, Throwable cause) {
        Waiting<Q, R> given;
        synchronized (this) {
            given = waiting;
            if (given == null) {
                return false;
            }
            if (given.beginning) {
                given.cancel = () -> given.call.cancel(message, cause);
                return false;
            }
            waiting = null;
        }
        given.call.cancel(message, cause);
        return true;
    }

    @Override
    public void setMessageCompression(boolean enabled) {
        if (!keep(() -> compress(enabled))) {
            compress(enabled);
        }
    }

    private void compress(boolean enabled) {
        if (request != null) {
            synchronized (this) {
                if (waiting != null) {
                    waiting.compression = enabled;
                    return;
                }
            }
        }
        ClientCall<Q, R> to = library;
        if (to != null) {
            to.setMessageCompression(enabled);
        }
    }

    @Override
    public boolean isReady() {
        ClientCall<Q, R> to = library;
        return to != null ? to.isReady() : isWaiting(); // whoever sends only what can be sent at once is not to wait for us
    }

    private synchronized boolean isWaiting() {
        return waiting != null;
    }

    @Override
    public Attributes getAttributes() {
        ClientCall<Q, R> to = library;
        return to == null ? Attributes.EMPTY : to.getAttributes();
    }
}

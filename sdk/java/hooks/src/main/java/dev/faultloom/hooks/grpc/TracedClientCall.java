package dev.faultloom.hooks.grpc;

import dev.faultloom.hooks.faults.CallEnd;
import dev.faultloom.hooks.faults.FaultEffect;
import dev.faultloom.hooks.faults.Faults;
import dev.faultloom.hooks.faults.Protocol;
import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.FaultDelay;
import dev.faultloom.scope.OutgoingCall;
import dev.faultloom.scope.Scope;
import dev.faultloom.scope.ScopeContext;
import dev.faultloom.wire.Bridge;
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
 * One call of a scope. The effect of a fault decides what happens when the call starts:
 *
 * <pre>
 * no wait, sent        ──▶ call of the library
 * wait, then sent      ──▶ delayed ──time──▶ call of the library
 * wait, then not sent  ──▶ delayed ──time──▶ ended
 * not sent             ──▶ ended
 * </pre>
 *
 * Actions of the application on a delayed call are queued and run when the call continues. A call whose envelope goes
 * into a field starts with its message: if the message turns out to be too large, the envelope goes into metadata.
 */
final class TracedClientCall<Q, R> extends ClientCall<Q, R> {
    private final Scope scope;
    private final ScopeContext scopeContext;
    private final MethodDescriptor<Q, R> method;
    private final CallOptions options;
    private final Channel channel;
    private final int receiveLimit;
    private final FieldSupport fieldSupport;

    private OutgoingCall call;
    private TracedClientListener<R> listener;
    private CompletableFuture<Boolean> wait; // null: not delayed
    private volatile ClientCall<Q, R> libraryCall; // null: not started
    private RequestMarshaller<Q> requestMarshaller; // null: the call does not wait for its message
    private PendingStart<Q, R> pendingStart; // guarded by this
    private List<Runnable> queuedActions; // null: not delayed; guarded by this
    private volatile boolean replyLost; // the call was canceled because a fault lost its reply

    /** A call of the library that starts with its message, and the actions of the application until then. */
    private static final class PendingStart<Q, R> {
        final ClientCall<Q, R> call;
        final Metadata headers;
        int requestedMessages;
        Boolean compression;
        boolean isStarting;
        Runnable cancel;

        PendingStart(ClientCall<Q, R> call, Metadata headers) {
            this.call = call;
            this.headers = headers;
        }
    }

    TracedClientCall(Scope scope, ScopeContext scopeContext, MethodDescriptor<Q, R> method, CallOptions options, Channel channel,
            int receiveLimit, FieldSupport fieldSupport) {
        this.scope = scope;
        this.scopeContext = scopeContext;
        this.method = method;
        this.options = options;
        this.channel = channel;
        this.receiveLimit = receiveLimit;
        this.fieldSupport = fieldSupport;
    }

    @Override
    public void start(Listener<R> application, Metadata headers) {
        FaultEffect effect = null;
        try {
            boolean inherited = scopeContext.isInherited();
            call = scope.beginGrpcCall(inherited, channel.authority(), "/" + method.getFullMethodName(), receiveLimit);
            if (call != null) {
                long timeoutMs = call.fault == null ? Faults.NO_TIMEOUT : Faults.timeoutMs(remainingNanos());
                effect = Faults.faultEffect(Protocol.GRPC, call.fault, timeoutMs);
            }
        } catch (RuntimeException e) {
            call = null; // an error of ours must not prevent the call
        }
        if (call == null) { // the scope is finished
            libraryCall = channel.newCall(method, options);
            libraryCall.start(application, headers);
            return;
        }
        listener = new TracedClientListener<>(scope, scopeContext, call, effect, method, application, this::cancelLibraryCall, fieldSupport);
        if (effect.waits()) {
            delay(effect, headers);
        } else if (effect.sends) {
            send(headers);
        } else {
            end(effect.end);
        }
    }

    /** Creates the library's call, and starts it unless it must wait for its message. */
    private void send(Metadata headers) {
        Marshaller<Q> marshaller = method.getRequestMarshaller();
        if (canUseField()) {
            marshaller = requestMarshaller = new RequestMarshaller<>(marshaller);
        }
        TrailerTracer tracer = new TrailerTracer();
        ClientCall<Q, R> created = channel.newCall(
                method.toBuilder(marshaller, listener.marshaller).build(), options.withStreamTracerFactory(tracer));
        listener.trailerTracer = tracer;
        if (requestMarshaller == null) {
            start(created, headers, call.envelope);
            return;
        }
        synchronized (this) {
            pendingStart = new PendingStart<>(created, headers);
        }
    }

    private boolean canUseField() {
        return method.getType() == MethodDescriptor.MethodType.UNARY && receiveLimit > 0 && call.envelope != null && !call.isBridged()
                && scope.envelope().signed.history && fieldSupport.acceptsField(method.getFullMethodName())
                && FieldAppender.isLibraryMarshaller(method.getRequestMarshaller());
    }

    /** Starts the library's call. {@code envelope}: goes into metadata; null: none does. */
    private void start(ClientCall<Q, R> created, Metadata headers, byte[] envelope) {
        headers.discardAll(GrpcKeys.CARRIER); // an envelope that the application forwarded
        if (envelope != null) {
            headers.put(GrpcKeys.CARRIER, envelope);
        }
        if (call.isBridged()) {
            addBridgeHeaders(headers);
        }
        created.start(listener, headers);
        libraryCall = created;
    }

    /** Starts the pending call, if any; {@code message} null: the application half-closed without a message. */
    private void startPending(Q message) {
        PendingStart<Q, R> pending;
        synchronized (this) {
            pending = pendingStart;
            if (pending == null) {
                return;
            }
            pending.isStarting = true;
        }
        boolean useField = message != null && requestMarshaller.hasRoom(message);
        if (useField) {
            requestMarshaller.setEnvelope(call.envelope);
            listener.sentInField = true;
        }
        start(pending.call, pending.headers, useField ? null : call.envelope);
        synchronized (this) {
            pendingStart = null;
        }
        if (pending.compression != null) {
            pending.call.setMessageCompression(pending.compression);
        }
        if (pending.requestedMessages > 0) {
            pending.call.request(pending.requestedMessages);
        }
        if (pending.cancel != null) {
            pending.cancel.run();
        }
    }

    private void addBridgeHeaders(Metadata headers) {
        Bridge bridge = call.injectBridge(
                headers.get(GrpcKeys.TRACEPARENT), GrpcKeys.joinedValues(headers, GrpcKeys.BAGGAGE));
        headers.discardAll(GrpcKeys.TRACEPARENT);
        headers.put(GrpcKeys.TRACEPARENT, bridge.traceparent);
        headers.discardAll(GrpcKeys.BAGGAGE);
        if (bridge.baggage != null) {
            headers.put(GrpcKeys.BAGGAGE, bridge.baggage);
        }
    }

    private void delay(FaultEffect effect, Metadata headers) {
        queuedActions = new ArrayList<>();
        Context context = Context.current();
        wait = FaultDelay.waitForFaultAsync(scope.process(), effect.waitMs);
        wait.thenAcceptAsync(elapsed -> context.run(() -> {
            if (effect.sendsAfterWait(elapsed)) {
                send(headers);
                runQueuedActions();
            } else {
                end(effect.end);
            }
        }), ForkJoinPool.commonPool());
    }

    /** Nanoseconds until the caller's deadline; Long.MAX_VALUE: none. */
    private long remainingNanos() {
        Deadline ofCall = options.getDeadline();
        Deadline ofContext = Context.current().getDeadline();
        Deadline first = ofCall == null ? ofContext : ofContext == null ? ofCall : ofCall.minimum(ofContext);
        return first == null ? Long.MAX_VALUE : Math.max(0, first.timeRemaining(TimeUnit.NANOSECONDS));
    }

    /** Runs the queued actions in order; later actions run at once. */
    private void runQueuedActions() {
        while (true) {
            List<Runnable> actions;
            synchronized (this) {
                actions = queuedActions;
                if (actions.isEmpty()) {
                    queuedActions = null;
                    return;
                }
                queuedActions = new ArrayList<>();
            }
            actions.forEach(Runnable::run);
        }
    }

    /** Ends a call that is not sent. */
    private void end(CallEnd end) {
        end.record(scope, call.number, null);
        closeOnExecutor(FaultStatus.of(end, channel.authority()));
    }

    /** Closes the call without the library, which would also use the call's executor. */
    private void closeOnExecutor(Status status) {
        Executor executor = options.getExecutor() == null ? ForkJoinPool.commonPool() : options.getExecutor();
        Context context = Context.current();
        executor.execute(() -> context.run(() -> {
            try (CurrentScope.Binding ignored = scopeContext.bind()) {
                listener.close(status, new Metadata());
            }
        }));
    }

    private void cancelLibraryCall() {
        replyLost = true;
        ClientCall<Q, R> started = libraryCall;
        if (started != null) {
            started.cancel("the reply was lost", null);
        }
    }

    /** Queues an action if the call is delayed; otherwise false. */
    private boolean enqueue(Runnable action) {
        if (wait == null) {
            return false;
        }
        synchronized (this) {
            if (queuedActions == null) {
                return false;
            }
            queuedActions.add(action);
            return true;
        }
    }

    @Override
    public void request(int messages) {
        if (!enqueue(() -> requestNow(messages))) {
            requestNow(messages);
        }
    }

    private void requestNow(int messages) {
        if (requestMarshaller != null) {
            synchronized (this) {
                if (pendingStart != null) {
                    pendingStart.requestedMessages += messages;
                    return;
                }
            }
        }
        ClientCall<Q, R> started = libraryCall;
        if (started != null) {
            started.request(messages);
        }
    }

    @Override
    public void sendMessage(Q message) {
        if (!enqueue(() -> sendMessageNow(message))) {
            sendMessageNow(message);
        }
    }

    private void sendMessageNow(Q message) {
        if (requestMarshaller != null) {
            startPending(message);
        }
        ClientCall<Q, R> started = libraryCall;
        if (started != null) {
            runUnlessLost(() -> started.sendMessage(message));
        }
    }

    /** The library throws on actions after a cancellation. It would not after a reply was really lost. */
    private void runUnlessLost(Runnable action) {
        try {
            action.run();
        } catch (IllegalStateException e) {
            if (!replyLost) {
                throw e;
            }
        }
    }

    @Override
    public void halfClose() {
        if (!enqueue(this::halfCloseNow)) {
            halfCloseNow();
        }
    }

    private void halfCloseNow() {
        if (requestMarshaller != null) {
            startPending(null);
        }
        ClientCall<Q, R> started = libraryCall;
        if (started != null) {
            runUnlessLost(started::halfClose);
        }
    }

    @Override
    public void cancel(String message, Throwable cause) {
        ClientCall<Q, R> started = libraryCall;
        if (listener != null) {
            listener.recordCancellation();
        }
        if (started != null) {
            started.cancel(message, cause);
        } else if (wait != null && wait.cancel(false) || cancelPending(message, cause)) {
            closeOnExecutor(Status.CANCELLED.withDescription(message).withCause(cause));
        }
    }

    /** Cancels a call that waits for its message, so that it never starts. False: no call waits. */
    private boolean cancelPending(String message, Throwable cause) {
        PendingStart<Q, R> pending;
        synchronized (this) {
            pending = pendingStart;
            if (pending == null) {
                return false;
            }
            if (pending.isStarting) {
                pending.cancel = () -> pending.call.cancel(message, cause);
                return false;
            }
            pendingStart = null;
        }
        pending.call.cancel(message, cause);
        return true;
    }

    @Override
    public void setMessageCompression(boolean enabled) {
        if (!enqueue(() -> setMessageCompressionNow(enabled))) {
            setMessageCompressionNow(enabled);
        }
    }

    private void setMessageCompressionNow(boolean enabled) {
        if (requestMarshaller != null) {
            synchronized (this) {
                if (pendingStart != null) {
                    pendingStart.compression = enabled;
                    return;
                }
            }
        }
        ClientCall<Q, R> started = libraryCall;
        if (started != null) {
            started.setMessageCompression(enabled);
        }
    }

    @Override
    public boolean isReady() {
        ClientCall<Q, R> started = libraryCall;
        // a call that waits for its message is ready, or applications that check first would never send it
        return started != null ? started.isReady() : isPending();
    }

    private synchronized boolean isPending() {
        return pendingStart != null;
    }

    @Override
    public Attributes getAttributes() {
        ClientCall<Q, R> started = libraryCall;
        return started == null ? Attributes.EMPTY : started.getAttributes();
    }
}

package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.StringValue;
import dev.faultloom.hooks.grpc.ClientHook;
import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.IncomingRequest;
import dev.faultloom.scope.Process;
import dev.faultloom.scope.Scope;
import dev.faultloom.trust.Receiver;
import dev.faultloom.trust.TrustSettings;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Event;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import dev.faultloom.wire.History;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The carrier that a client with the explicit hook chooses for the envelope. */
final class GrpcFieldClientTest {
    private static final MethodDescriptor<StringValue, StringValue> SAY = method("Say", MethodType.UNARY);

    private final Process caller = process("caller");
    private final Process callee = process("callee");
    private RawCallee server;
    private ManagedChannel channel;
    private Scope scope;
    private CurrentScope.Binding binding;

    private static MethodDescriptor<StringValue, StringValue> method(String name, MethodType type) {
        return MethodDescriptor.<StringValue, StringValue>newBuilder()
                .setType(type)
                .setFullMethodName("t.T/" + name)
                .setRequestMarshaller(ProtoUtils.marshaller(StringValue.getDefaultInstance()))
                .setResponseMarshaller(ProtoUtils.marshaller(StringValue.getDefaultInstance()))
                .build();
    }

    private static Process process(String service) {
        try {
            return new Process(service, Map.of(), new Receiver(TrustSettings.parse(Requests.TRUST)));
        } catch (TrustSettings.Invalid e) {
            throw new AssertionError(e);
        }
    }

    @BeforeEach
    void start() throws Exception {
        server = new RawCallee();
        channel = NettyChannelBuilder.forTarget(server.address()).usePlaintext().enableRetry().defaultServiceConfig(Map.of("methodConfig",
                List.of(Map.of("name", List.of(Map.of("service", "t.T", "method", "Retried")), "retryPolicy", Map.of("maxAttempts", 2.0,
                        "initialBackoff", "0.001s", "maxBackoff", "0.001s", "backoffMultiplier", 1.0, "retryableStatusCodes", List.of("UNAVAILABLE"))))))
                .intercept(new ClientHook(ClientHook.DEFAULT_RECEIVE_LIMIT)).build();
        begin(Requests.begin());
    }

    @AfterEach
    void stop() {
        binding.close();
        channel.shutdownNow();
        server.close();
    }

    private void begin(Envelope envelope) {
        if (binding != null) {
            binding.close();
        }
        scope = caller.beginScope(envelope);
        binding = CurrentScope.bind(scope);
    }

    private Future<StringValue> say(MethodDescriptor<StringValue, StringValue> method, String text) {
        return ClientCalls.futureUnaryCall(channel.newCall(method, CallOptions.DEFAULT), StringValue.of(text));
    }

    private RawCallee.Request next() throws InterruptedException {
        RawCallee.Request request = server.requests.poll(20, TimeUnit.SECONDS);
        if (request == null) {
            throw new AssertionError("no request arrived");
        }
        return request;
    }

    /** The history of a callee that accepted this request. */
    private byte[] history(RawCallee.Request request, boolean takesField) {
        Scope calleeScope = callee.openScope(IncomingRequest.grpcField(request.envelope(), name -> null));
        if (takesField) {
            calleeScope.announceField();
        }
        return calleeScope.finish(calleeScope.now(), 0, "");
    }

    /** Makes a call, replies to it, and returns the carrier of its envelope. {@code takesField} null: no history. */
    private String call(MethodDescriptor<StringValue, StringValue> method, String text, Boolean takesField) throws Exception {
        Future<StringValue> reply = say(method, text);
        RawCallee.Request request = next();
        assertEquals(StringValue.of(text), StringValue.parseFrom(request.message));
        request.reply(takesField == null ? null : history(request, takesField));
        assertEquals(text, reply.get(20, TimeUnit.SECONDS).getValue());
        return request.carrier();
    }

    @Test
    void fieldIsUsedForMethodsWhoseCalleeAnnouncesIt() throws Exception {
        assertEquals("metadata", call(SAY, "one", true));
        assertEquals("field", call(SAY, "two", true));
        assertEquals("metadata", call(method("Other", MethodType.UNARY), "three", true));
        assertEquals("field", call(SAY, "", false), "also for an empty message");
        assertEquals("metadata", call(SAY, "five", true), "the latest announcement counts");
        assertEquals("field", call(SAY, "six", true));
        History all = History.decode(scope.finish(scope.now(), 0, ""));
        assertEquals(6, all.segment.events.stream().filter(event -> event.kind == Event.RECV_RESPONSE && event.child != null && !event.gap).count());
    }

    @Test
    void calleeWithoutSdkGetsNoField() throws Exception {
        for (int i = 0; i < 3; i++) {
            assertEquals("metadata", call(SAY, "hello", null));
        }
    }

    @Test
    void channelsLearnIndependently() throws Exception {
        assertEquals("metadata", call(SAY, "one", true));
        ManagedChannel first = channel;
        ClientHook shared = new ClientHook(ClientHook.DEFAULT_RECEIVE_LIMIT);
        for (int i = 0; i < 2; i++) {
            channel = NettyChannelBuilder.forTarget(server.address()).usePlaintext().intercept(shared).build();
            assertEquals("metadata", call(SAY, "one", true));
            assertEquals("field", call(SAY, "two", true));
            channel.shutdownNow();
        }
        channel = first;
        assertEquals("field", call(SAY, "two", true));
    }

    @Test
    void largeMessageUsesMetadata() throws Exception {
        assertEquals("metadata", call(SAY, "one", true));
        assertEquals("field", call(SAY, "x".repeat(65_536 - 4), true)); // plus tag and length
        assertEquals("metadata", call(SAY, "x".repeat(65_536 - 3), true));
        assertEquals("field", call(SAY, "four", true));
    }

    @Test
    void replyWithoutHistoryDisablesFieldsPermanently() throws Exception {
        assertEquals("metadata", call(SAY, "one", true));
        assertEquals("field", call(SAY, "two", null));
        assertEquals("metadata", call(SAY, "three", true));
        assertEquals("metadata", call(SAY, "four", true));
    }

    @Test
    void callAfterAFailedFieldCallUsesMetadata() throws Exception {
        assertEquals("metadata", call(SAY, "one", true));
        Future<StringValue> canceled = say(SAY, "two");
        assertEquals("field", next().carrier());
        canceled.cancel(true);
        assertEquals("metadata", call(SAY, "three", true));
        assertEquals("field", call(SAY, "four", true));
        StatusRuntimeException late = assertThrows(StatusRuntimeException.class, () -> ClientCalls.blockingUnaryCall(channel, SAY,
                CallOptions.DEFAULT.withDeadlineAfter(1, TimeUnit.SECONDS), StringValue.of("five")));
        assertEquals(Status.Code.DEADLINE_EXCEEDED, late.getStatus().getCode());
        assertEquals("field", next().carrier());
        assertEquals("metadata", call(SAY, "six", true));
    }

    @Test
    void bridgedEnvelopesUseMetadata() throws Exception {
        assertEquals("metadata", call(SAY, "one", true));
        begin(Requests.beginBridged(Fault.of(FaultKind.UNAVAILABLE).callee("no-such-callee")));
        Future<StringValue> reply = say(SAY, "two");
        RawCallee.Request request = next();
        assertEquals("metadata", request.carrier());
        request.reply(null);
        assertEquals("two", reply.get(20, TimeUnit.SECONDS).getValue());
        begin(Requests.begin());
        assertEquals("field", call(SAY, "three", true));
        channel = NettyChannelBuilder.forTarget(server.address()).usePlaintext().intercept(new ClientHook(0)).build();
        assertEquals("metadata", call(SAY, "one", true));
        assertEquals("metadata", call(SAY, "its replies must not carry a field", true));
    }

    @Test
    void streamsUseMetadata() throws Exception {
        for (int i = 0; i < 2; i++) {
            CompletableFuture<String> got = new CompletableFuture<>();
            StreamObserver<StringValue> out = ClientCalls.asyncBidiStreamingCall(channel.newCall(method("Both", MethodType.BIDI_STREAMING), CallOptions.DEFAULT), observer(got));
            out.onNext(StringValue.of("hello"));
            RawCallee.Request request = next();
            assertEquals("metadata", request.carrier());
            request.reply(history(request, true));
            assertEquals("hello", got.get(20, TimeUnit.SECONDS));
        }
    }

    private static StreamObserver<StringValue> observer(CompletableFuture<String> got) {
        return new StreamObserver<>() {
            @Override
            public void onNext(StringValue reply) {
                got.complete(reply.getValue());
            }

            @Override
            public void onError(Throwable error) {
                got.completeExceptionally(error);
            }

            @Override
            public void onCompleted() {}
        };
    }

    @Test
    void blockingAndAsynchronousStubsAndCompression() throws Exception {
        assertEquals("metadata", call(SAY, "one", true));
        CompletableFuture<String> blocking = new CompletableFuture<>();
        new Thread(CurrentScope.wrap((Runnable) () -> blocking.complete(ClientCalls.blockingUnaryCall(
                channel, SAY, CallOptions.DEFAULT.withCompression("gzip"), StringValue.of("x".repeat(1000))).getValue()))).start();
        RawCallee.Request request = next();
        assertEquals("field", request.carrier());
        request.reply(history(request, true));
        assertEquals("x".repeat(1000), blocking.get(20, TimeUnit.SECONDS));
        CompletableFuture<String> got = new CompletableFuture<>();
        ClientCalls.asyncUnaryCall(channel.newCall(SAY, CallOptions.DEFAULT), StringValue.of("three"), observer(got));
        request = next();
        assertEquals("field", request.carrier());
        request.reply(history(request, true));
        assertEquals("three", got.get(20, TimeUnit.SECONDS));
    }

    @Test
    void retryOfTheLibrarySendsTheFieldAgain() throws Exception {
        MethodDescriptor<StringValue, StringValue> retried = method("Retried", MethodType.UNARY);
        assertEquals("metadata", call(retried, "one", true));
        Future<StringValue> reply = say(retried, "two");
        RawCallee.Request request = next();
        assertEquals("field", request.carrier());
        request.fail(Status.UNAVAILABLE);
        request = next();
        assertEquals("field", request.carrier());
        request.reply(history(request, true));
        assertEquals("two", reply.get(20, TimeUnit.SECONDS).getValue());
    }

    @Test
    void delayedCallUsesTheFieldAndLostReplyIsRecorded() throws Exception {
        assertEquals("metadata", call(SAY, "one", true));
        begin(Requests.begin(Fault.of(FaultKind.DELAY).arg(1).nth(1), Fault.of(FaultKind.LOST_REPLY).nth(2)));
        assertEquals("field", call(SAY, "two", true));
        Future<StringValue> reply = say(SAY, "three");
        RawCallee.Request request = next();
        assertEquals("field", request.carrier());
        request.reply(history(request, true));
        assertThrows(Exception.class, () -> reply.get(20, TimeUnit.SECONDS));
        assertEquals("field", call(SAY, "four", true));
        assertEquals(List.of("/t.T/Say > " + server.address() + ": replied 0 fault 0 child callee",
                "/t.T/Say > " + server.address() + ": failed 14 fault 1 child callee",
                "/t.T/Say > " + server.address() + ": replied 0 child callee"),
                Calls.of(History.decode(scope.finish(scope.now(), 0, "")).segment));
    }

    @Test
    void callCanceledBeforeItsMessageIsNotSent() throws Exception {
        assertEquals("metadata", call(SAY, "one", true));
        ClientCall<StringValue, StringValue> canceled = channel.newCall(SAY, CallOptions.DEFAULT);
        CompletableFuture<Status> end = new CompletableFuture<>();
        canceled.start(new ClientCall.Listener<>() {
            @Override
            public void onClose(Status status, Metadata trailers) {
                end.complete(status);
            }
        }, new Metadata());
        canceled.request(2);
        assertTrue(canceled.isReady());
        canceled.cancel("enough", null);
        assertEquals(Status.Code.CANCELLED, end.get(20, TimeUnit.SECONDS).getCode());
        assertFalse(canceled.isReady());
        assertEquals("field", call(SAY, "three", true));
        assertNull(server.requests.poll());
    }

    @Test
    void callWithoutMessageIsLeftToTheLibrary() throws Exception {
        assertEquals("metadata", call(SAY, "one", true));
        ClientCall<StringValue, StringValue> empty = channel.newCall(SAY, CallOptions.DEFAULT);
        CompletableFuture<Status> end = new CompletableFuture<>();
        empty.start(new ClientCall.Listener<>() {
            @Override
            public void onClose(Status status, Metadata trailers) {
                end.complete(status);
            }
        }, new Metadata());
        empty.request(2);
        empty.halfClose();
        empty.cancel("enough", null);
        assertEquals(Status.Code.CANCELLED, end.get(20, TimeUnit.SECONDS).getCode());
        assertEquals("field", call(SAY, "three", true));
    }
}

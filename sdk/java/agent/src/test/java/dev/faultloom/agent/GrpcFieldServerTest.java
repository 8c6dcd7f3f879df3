package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Message;
import com.google.protobuf.StringValue;
import dev.faultloom.hooks.grpc.ClientHook;
import dev.faultloom.hooks.grpc.ServerHook;
import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.IncomingRequest;
import dev.faultloom.scope.Process;
import dev.faultloom.scope.Scope;
import dev.faultloom.trust.Receiver;
import dev.faultloom.trust.TrustSettings;
import dev.faultloom.wire.Accept;
import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import dev.faultloom.wire.History;
import dev.faultloom.wire.PieceJoiner;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ServerCalls;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Servers receive envelopes in a field: unchanged applications with the agent, and one with the explicit hook. */
final class GrpcFieldServerTest {
    private static final byte[] OTHER_FIELD = {(byte) 0xFA, 0x01, 1, 'x'}; // field 31, which is not in the schema

    private static Peer back;
    private static Peer front;
    private static GrpcDriver toBack;
    private static GrpcDriver toFront;

    @BeforeAll
    static void start() throws Exception {
        back = Peer.traced("back").start("grpc");
        front = Peer.traced("front").with("FAULTLOOM_PEERS", back.address("grpc") + "=back").start("grpc");
        toBack = new GrpcDriver(back.address("grpc"));
        toFront = new GrpcDriver(front.address("grpc"));
    }

    @AfterAll
    static void stop() throws Exception {
        toBack.close();
        toFront.close();
        front.close();
        back.close();
    }

    private static byte[] bytes(Envelope envelope) {
        return Requests.bytes(envelope, Accept.FIELD, 4 << 20);
    }

    private static GrpcDriver.Reply inField(GrpcDriver driver, String method, String text, Fault... faults) throws Exception {
        Envelope envelope = Requests.begin(faults);
        return driver.send(method, text, null, bytes(envelope), envelope.hop.call);
    }

    private static boolean announced(GrpcDriver.Reply reply) {
        byte[] history = reply.field != null ? reply.field : reply.trailer;
        assertNotNull(history);
        return History.takesField(history, 0, history.length);
    }

    @Test
    void fieldIsRemovedBeforeTheHandlerRuns() throws Exception {
        for (GrpcDriver.Reply reply : List.of(toBack.send("Unknown", "hello"), inField(toBack, "Unknown", "hello"), inField(toBack, "Unknown", "hello"))) {
            assertEquals("hello 0", reply.text());
            assertEquals("back", reply.segment.service);
            assertTrue(announced(reply));
            assertNull(reply.trailer);
        }
        assertEquals(" 0", inField(toBack, "Unknown", "").text());
        assertEquals("x".repeat(3_000_000) + " 0", inField(toBack, "Unknown", "x".repeat(3_000_000)).text());
    }

    @Test
    void errorAnnouncesFieldsInItsTrailer() throws Exception {
        for (GrpcDriver.Reply reply : List.of(toBack.send("Fail", "5"), inField(toBack, "Fail", "5"), inField(toBack, "Throw", ""))) {
            assertNotNull(reply.trailer);
            assertTrue(announced(reply));
        }
    }

    @Test
    void planInAFieldFiresOnce() throws Exception {
        Envelope envelope = Requests.begin(Fault.of(FaultKind.STATUS).arg(7).callee("back"));
        String script = "grpc " + back.address("grpc") + " Run say hello";
        GrpcDriver.Reply reply = toFront.send("Run", script, null, bytes(envelope), envelope.hop.call);
        assertEquals("PERMISSION_DENIED status 7 injected by Faultloom", reply.text());
        assertEquals(List.of("/t.T/Run > back: replied 7 fault 0"), Calls.of(reply.segment));
        assertNull(toFront.send("Run", script, null, bytes(envelope), envelope.hop.call).segment);
    }

    @Test
    void rejectedEnvelopeIsRemovedFromTheMessage() throws Exception {
        byte[] wrong = bytes(Requests.begin());
        wrong[wrong.length / 2] ^= 1;
        for (byte[] bad : List.of(wrong, new byte[] {9}, new byte[3000], new byte[0])) {
            GrpcDriver.Reply reply = toBack.send("Unknown", "hello", null, bad, 0);
            assertEquals("hello 0", reply.text());
            assertNull(reply.segment);
            // the metadata belongs to another request, whose envelope the client forwarded
            Envelope forwarded = Requests.begin();
            reply = toBack.send("Unknown", "hello", bytes(forwarded), bad, forwarded.hop.call);
            assertEquals("hello 0", reply.text());
            assertTrue(reply.segment == null && reply.field == null && reply.trailer == null);
        }
    }

    @Test
    void inactiveServerLeavesMessagesUnchangedUntilItHasSettings(@TempDir Path folder) throws Exception {
        Path trust = folder.resolve("trust");
        try (Peer inactive = Peer.traced("inactive").without("FAULTLOOM_TRUST").with("FAULTLOOM_TRUST_FILE", trust.toString()).start("grpc");
                GrpcDriver driver = new GrpcDriver(inactive.address("grpc"))) {
            GrpcDriver.Reply reply = inField(driver, "Unknown", "hello");
            assertTrue(reply.text().matches("hello [1-9][0-9]*"), reply.text());
            assertNull(reply.segment);
            Files.writeString(trust, Requests.TRUST);
            for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10); reply.segment == null && System.nanoTime() < end; ) {
                reply = inField(driver, "Unknown", "hello");
            }
            assertEquals("hello 0", reply.text());
            assertEquals("inactive", reply.segment.service);
        }
    }

    @Test
    void otherUnknownFieldsStay() throws Exception {
        byte[] hello = StringValue.of("hello").toByteArray();
        assertEquals("hello 4", toBack.send("Unknown", MethodType.UNARY, GrpcDriver.join(hello, OTHER_FIELD), null, 0).text());
        Envelope envelope = Requests.begin();
        byte[] field = Carrier.encodeField(bytes(envelope));
        byte[] both = GrpcDriver.join(GrpcDriver.join(hello, OTHER_FIELD), field);
        assertEquals("hello 4", toBack.send("Unknown", MethodType.UNARY, both, null, envelope.hop.call).text());
        field[field.length - 1]++; // a wrong magic
        assertEquals("hello " + field.length, toBack.send("Unknown", MethodType.UNARY, GrpcDriver.join(hello, field), null, 0).text());
    }

    @Test
    void fieldTakesPrecedenceOverMetadata() throws Exception {
        Envelope forwarded = Requests.begin();
        Envelope own = Requests.begin();
        GrpcDriver.Reply reply = toBack.send("Unknown", "hello", bytes(forwarded), bytes(own), own.hop.call);
        assertEquals("hello 0", reply.text());
        assertEquals("back", reply.segment.service);
    }

    @Test
    void everyCallOfAChannelHasItsHistory() throws Exception {
        String call = "grpc " + back.address("grpc") + " Unknown hello\n";
        GrpcDriver.Reply reply = inField(toFront, "Run", call.repeat(3));
        assertEquals("OK hello 0\nOK hello 0\nOK hello 0", reply.text());
        String recorded = "/t.T/Unknown > back: replied 0 child back";
        assertEquals(List.of(recorded, recorded, recorded), Calls.of(reply.segment));
    }

    @Test
    void unchangedClientUsesTheField() throws Exception {
        try (RawCallee raw = new RawCallee()) {
            Process callee = process("raw");
            for (String carrier : List.of("metadata", "field", "field")) {
                CompletableFuture<GrpcDriver.Reply> reply = CompletableFuture.supplyAsync(() -> {
                    try {
                        return toFront.send("Run", "grpc " + raw.address() + " Say hello");
                    } catch (Exception e) {
                        throw new AssertionError(e);
                    }
                });
                RawCallee.Request request = raw.requests.poll(20, TimeUnit.SECONDS);
                assertEquals(carrier, request.carrier());
                Scope scope = callee.openScope(IncomingRequest.grpcField(request.envelope(), name -> null));
                scope.announceField();
                request.reply(scope.finish(scope.now(), 0, ""));
                assertEquals("OK hello", reply.get(20, TimeUnit.SECONDS).text());
            }
        }
    }

    @Test
    void serverWithASmallLimitDoesNotAnnounceFields() throws Exception {
        try (Peer small = Peer.traced("small").option("-Dpeer.limit=1048575").start("grpc");
                GrpcDriver driver = new GrpcDriver(small.address("grpc"))) {
            assertFalse(announced(driver.send("Unknown", "hello")));
            GrpcDriver.Reply reply = inField(driver, "Unknown", "hello");
            assertEquals("hello 0", reply.text());
            assertFalse(announced(reply));
        }
    }

    @Test
    void fieldReplacesTheScopeOfASampledRequest() throws Exception {
        try (Peer sampling = Peer.traced("sampling").with("FAULTLOOM_SAMPLE", "1/1").with("FAULTLOOM_EXPORT", "http://127.0.0.1:1/v1/traces").start("grpc");
                GrpcDriver driver = new GrpcDriver(sampling.address("grpc"))) {
            assertNull(driver.plain("Unknown", "hello").segment);
            GrpcDriver.Reply reply = inField(driver, "Unknown", "hello");
            assertEquals("hello 0", reply.text());
            assertEquals("sampling", reply.segment.service);
        }
    }

    private static Process process(String service) throws TrustSettings.Invalid {
        return new Process(service, Map.of(), new Receiver(TrustSettings.parse(Requests.TRUST)));
    }

    /** Records the messages that later interceptors receive, and attaches its own context. */
    private static final class MessageRecorder implements ServerInterceptor {
        volatile String observed;

        @Override
        public <Q, R> ServerCall.Listener<Q> interceptCall(ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
            return new SimpleForwardingServerCallListener<>(
                    Contexts.interceptCall(Context.current().withValue(Context.key("own"), "x"), call, headers, next)) {
                @Override
                public void onMessage(Q message) {
                    observed = ((Message) message).getUnknownFields().getSerializedSize() + " " + (CurrentScope.get() != null);
                    super.onMessage(message);
                }
            };
        }
    }

    /** Whether a call is traced on another thread to which only io.grpc.Context is propagated. */
    private static boolean elsewhere(MethodDescriptor<StringValue, StringValue> method) {
        CompletableFuture<Boolean> traced = new CompletableFuture<>();
        Channel stock = new Channel() {
            @Override
            public <Q, R> ClientCall<Q, R> newCall(MethodDescriptor<Q, R> called, CallOptions options) {
                return null;
            }

            @Override
            public String authority() {
                return "nowhere";
            }
        };
        Runnable call = () -> traced.complete(new ClientHook(0).interceptCall(method, CallOptions.DEFAULT, stock) != null);
        new Thread(Context.current().wrap(call)).start();
        return traced.join();
    }

    @Test
    void explicitHookRemovesFieldsBeforeOtherInterceptors() throws Exception {
        MethodDescriptor<StringValue, StringValue> say = MethodDescriptor.<StringValue, StringValue>newBuilder()
                .setType(MethodType.UNARY)
                .setFullMethodName("t.T/Say")
                .setRequestMarshaller(ProtoUtils.marshaller(StringValue.getDefaultInstance()))
                .setResponseMarshaller(ProtoUtils.marshaller(StringValue.getDefaultInstance()))
                .build();
        for (int limit : new int[] {1 << 20, (1 << 20) - 1}) {
            MessageRecorder recorder = new MessageRecorder();
            Server server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0))
                    .addService(ServerServiceDefinition.builder("t.T").addMethod(say, ServerCalls.asyncUnaryCall((request, reply) -> {
                        reply.onNext(StringValue.of(request.getValue() + " " + (CurrentScope.get() != null) + " " + elsewhere(say)));
                        reply.onCompleted();
                    })).build())
                    .intercept(recorder)
                    .intercept(new ServerHook(process("explicit"), limit, false)).build().start();
            try (GrpcDriver driver = new GrpcDriver("127.0.0.1:" + server.getPort())) {
                for (GrpcDriver.Reply reply : List.of(driver.send("Say", "hello"), inField(driver, "Say", "hello"))) {
                    assertEquals("hello true true", reply.text());
                    assertEquals("0 true", recorder.observed);
                    assertEquals("explicit", reply.segment.service);
                    assertEquals(limit == 1 << 20, announced(reply));
                }
                assertEquals("hello false false", driver.plain("Say", "hello").text());
                assertEquals("0 false", recorder.observed);
                assertEquals(Status.Code.OK, driver.plain("Say", "hello").status.getCode());
            } finally {
                server.shutdownNow();
            }
        }
    }

    @Test
    void streamsAnnounceNothing() throws Exception {
        Envelope envelope = Requests.begin();
        GrpcDriver.Reply reply = toBack.send("Down", MethodType.SERVER_STREAMING, StringValue.of("say one").toByteArray(), bytes(envelope), envelope.hop.call);
        assertEquals("one", reply.text());
        PieceJoiner pieces = new PieceJoiner();
        pieces.add(reply.field, 0, reply.field.length);
        pieces.add(reply.trailer, 0, reply.trailer.length);
        byte[] history = pieces.history(envelope.hop.call);
        assertFalse(History.takesField(history, 0, history.length));
    }
}

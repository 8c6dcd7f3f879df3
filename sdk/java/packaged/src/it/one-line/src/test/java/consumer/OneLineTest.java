package consumer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.protobuf.StringValue;
import dev.faultloom.Faultloom;
import dev.faultloom.entry.ThisProcess;
import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.Process;
import dev.faultloom.scope.Scope;
import dev.faultloom.trust.Signer;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import dev.faultloom.wire.History;
import io.grpc.CallOptions;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ServerCalls;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class OneLineTest {
    private static final MethodDescriptor<StringValue, StringValue> ECHO = MethodDescriptor.<StringValue, StringValue>newBuilder()
            .setType(MethodDescriptor.MethodType.UNARY).setFullMethodName("consumer.Echo/Say")
            .setRequestMarshaller(ProtoUtils.marshaller(StringValue.getDefaultInstance()))
            .setResponseMarshaller(ProtoUtils.marshaller(StringValue.getDefaultInstance())).build();
    private Server server;
    private ManagedChannel channel;

    @BeforeEach
    void start() throws Exception {
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                .addService(ServerServiceDefinition.builder("consumer.Echo").addMethod(ECHO, ServerCalls.asyncUnaryCall((request, reply) -> {
                    reply.onNext(request);
                    reply.onCompleted();
                })).build())
                .intercept(Faultloom.serverInterceptor()).build().start();
        channel = Grpc.newChannelBuilder("127.0.0.1:" + server.getPort(), InsecureChannelCredentials.create())
                .intercept(Faultloom.clientInterceptor()).build();
    }

    @AfterEach
    void stop() {
        channel.shutdownNow();
        server.shutdownNow();
    }

    private String say(String text) {
        return ClientCalls.blockingUnaryCall(channel, ECHO, CallOptions.DEFAULT, StringValue.of(text)).getValue();
    }

    private static Scope begin(List<Fault> plan) throws Exception {
        Process process = ThisProcess.get();
        return process.beginScope(Signer.of(process.receiver().settings(), true).sign(plan, System.currentTimeMillis() / 1000 + 60));
    }

    @Test
    void callIsTracedThenFaultedThenTraced() throws Exception {
        assertTraced();
        try (CurrentScope.Binding bound = CurrentScope.bind(begin(List.of(Fault.of(FaultKind.UNAVAILABLE))))) {
            StatusRuntimeException e = assertThrows(StatusRuntimeException.class, () -> say("hello"));
            assertEquals(Status.Code.UNAVAILABLE, e.getStatus().getCode());
        }
        assertTraced();
        assertEquals("outside", say("outside"));
    }

    private void assertTraced() throws Exception {
        Scope scope = begin(null);
        try (CurrentScope.Binding bound = CurrentScope.bind(scope)) {
            assertEquals("hello", say("hello"));
        }
        History history = History.decode(scope.finish(scope.now(), 0, ""));
        assertEquals(3, history.segment.events.size());
        assertFalse(history.segment.events.get(1).gap);
        assertEquals("consumer", history.segment.events.get(1).child.service);
    }
}

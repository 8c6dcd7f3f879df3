package example.peer;

import com.google.protobuf.StringValue;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.util.function.Consumer;

/**
 * The gRPC server: {@code Run} runs a script, {@code Fail} fails with a code, {@code Throw} throws, {@code Unknown}
 * returns the length of the unknown fields in its message; and three streams. {@code -Dpeer.limit}: the receive limit.
 */
final class GrpcService {
    private GrpcService() {}

    static int start() throws Exception {
        ServerServiceDefinition service = ServerServiceDefinition.builder(GrpcMethods.SERVICE)
                .addMethod(GrpcMethods.unary("Run"), ServerCalls.asyncUnaryCall(GrpcService::run))
                .addMethod(GrpcMethods.unary("Big"), ServerCalls.asyncUnaryCall(GrpcService::big))
                .addMethod(GrpcMethods.unary("Fail"), ServerCalls.asyncUnaryCall(GrpcService::fail))
                .addMethod(GrpcMethods.unary("Unknown"), ServerCalls.asyncUnaryCall(GrpcService::unknown))
                .addMethod(GrpcMethods.unary("Throw"), ServerCalls.asyncUnaryCall((request, reply) -> {
                    throw new IllegalStateException("thrown");
                }))
                .addMethod(GrpcMethods.unary("FailAndThrow"), ServerCalls.asyncUnaryCall((request, reply) -> {
                    fail(request, reply);
                    throw new IllegalStateException("thrown");
                }))
                .addMethod(GrpcMethods.method("Down", MethodType.SERVER_STREAMING), ServerCalls.asyncServerStreamingCall(GrpcService::down))
                .addMethod(GrpcMethods.method("Up", MethodType.CLIENT_STREAMING), ServerCalls.asyncClientStreamingCall(GrpcService::up))
                .addMethod(GrpcMethods.method("Both", MethodType.BIDI_STREAMING), ServerCalls.asyncBidiStreamingCall(GrpcService::both))
                .build();
        Server server = GrpcTransport.server().maxInboundMessageSize(Integer.getInteger("peer.limit", 4 << 20)).addService(service).build().start();
        return server.getPort();
    }

    private static void run(StringValue request, StreamObserver<StringValue> reply) {
        reply.onNext(StringValue.of(Script.run(request.getValue())));
        reply.onCompleted();
    }

    private static void big(StringValue request, StreamObserver<StringValue> reply) {
        reply.onNext(StringValue.of("x".repeat(Integer.parseInt(request.getValue()))));
        reply.onCompleted();
    }

    private static void unknown(StringValue request, StreamObserver<StringValue> reply) {
        reply.onNext(StringValue.of(request.getValue() + " " + request.getUnknownFields().getSerializedSize()));
        reply.onCompleted();
    }

    private static void fail(StringValue request, StreamObserver<StringValue> reply) {
        Metadata trailers = new Metadata();
        trailers.put(Metadata.Key.of("own", Metadata.ASCII_STRING_MARSHALLER), "trailer");
        reply.onError(Status.fromCodeValue(Integer.parseInt(request.getValue())).withDescription("requested failure").asRuntimeException(trailers));
    }

    /** Sends a message after each line of the script; a line {@code fail} ends the stream with an error. */
    private static void down(StringValue request, StreamObserver<StringValue> reply) {
        for (String line : request.getValue().split("\n")) {
            if (line.equals("fail")) {
                reply.onError(Status.ABORTED.withDescription("requested failure").asRuntimeException());
                return;
            }
            reply.onNext(StringValue.of(Script.run(line)));
        }
        reply.onCompleted();
    }

    /** Runs the script of every message and replies with all results. */
    private static StreamObserver<StringValue> up(StreamObserver<StringValue> reply) {
        return new Lines(line -> { }, all -> {
            reply.onNext(StringValue.of(all));
            reply.onCompleted();
        });
    }

    /** Replies to each message with the results of its script. */
    private static StreamObserver<StringValue> both(StreamObserver<StringValue> reply) {
        return new Lines(line -> reply.onNext(StringValue.of(line)), all -> reply.onCompleted());
    }

    private static final class Lines implements StreamObserver<StringValue> {
        private final StringBuilder all = new StringBuilder();
        private final Consumer<String> each;
        private final Consumer<String> end;

        Lines(Consumer<String> each, Consumer<String> end) {
            this.each = each;
            this.end = end;
        }

        @Override
        public void onNext(StringValue message) {
            String result = Script.run(message.getValue());
            all.append(all.length() == 0 ? "" : "+").append(result);
            each.accept(result);
        }

        @Override
        public void onError(Throwable error) {}

        @Override
        public void onCompleted() {
            end.accept(all.toString());
        }
    }
}

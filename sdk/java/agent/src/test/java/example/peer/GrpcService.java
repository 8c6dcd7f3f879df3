package example.peer;

import com.google.protobuf.StringValue;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.net.InetSocketAddress;

/** The gRPC server: {@code Run} does a script, {@code Fail} fails with a code, {@code Throw} throws. */
final class GrpcService {
    private GrpcService() {}

    static int start() throws Exception {
        ServerServiceDefinition service = ServerServiceDefinition.builder(GrpcMethods.SERVICE)
                .addMethod(GrpcMethods.unary("Run"), ServerCalls.asyncUnaryCall(GrpcService::run))
                .addMethod(GrpcMethods.unary("Big"), ServerCalls.asyncUnaryCall(GrpcService::big))
                .addMethod(GrpcMethods.unary("Fail"), ServerCalls.asyncUnaryCall(GrpcService::fail))
                .addMethod(GrpcMethods.unary("Throw"), ServerCalls.asyncUnaryCall((request, reply) -> {
                    throw new IllegalStateException("thrown");
                }))
                .build();
        Server server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0)).addService(service).build().start();
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

    private static void fail(StringValue request, StreamObserver<StringValue> reply) {
        Metadata trailers = new Metadata();
        trailers.put(Metadata.Key.of("own", Metadata.ASCII_STRING_MARSHALLER), "trailer");
        reply.onError(Status.fromCodeValue(Integer.parseInt(request.getValue())).withDescription("asked for").asRuntimeException(trailers));
    }
}

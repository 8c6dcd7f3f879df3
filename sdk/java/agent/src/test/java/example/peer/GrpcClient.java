package example.peer;

import com.google.protobuf.StringValue;
import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.ClientCalls;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/** The gRPC client, one channel per address. */
final class GrpcClient {
    private static final Map<String, ManagedChannel> CHANNELS = new ConcurrentHashMap<>();

    private GrpcClient() {}

    private static ManagedChannel channel(String address) {
        return CHANNELS.computeIfAbsent(address, a -> NettyChannelBuilder.forTarget(a).usePlaintext().build());
    }

    /** {@code OK text} or {@code CODE description}; a method {@code Name@ms} has that deadline. */
    static String unary(String address, String method, String request) {
        int at = method.indexOf('@');
        String name = at < 0 ? method : method.substring(0, at);
        long ms = at < 0 ? 30_000 : Long.parseLong(method.substring(at + 1));
        try {
            StringValue reply = ClientCalls.blockingUnaryCall(channel(address), GrpcMethods.unary(name),
                    CallOptions.DEFAULT.withDeadlineAfter(ms, TimeUnit.MILLISECONDS), StringValue.of(request));
            String text = reply.getValue();
            return "OK " + (text.length() > 1000 ? text.length() + " long" : text);
        } catch (StatusRuntimeException e) {
            return e.getStatus().getCode() + " " + e.getStatus().getDescription();
        }
    }
}

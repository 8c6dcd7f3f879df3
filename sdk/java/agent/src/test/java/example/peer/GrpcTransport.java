package example.peer;

import io.grpc.ManagedChannelBuilder;
import io.grpc.ServerBuilder;
import java.net.InetSocketAddress;

/** The transport of gRPC: with shaded Netty, or {@code -Dpeer.netty=unshaded} with the Netty of the application. */
final class GrpcTransport {
    private static final boolean UNSHADED = "unshaded".equals(System.getProperty("peer.netty"));

    private GrpcTransport() {}

    static ServerBuilder<?> server() {
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", 0);
        return UNSHADED ? io.grpc.netty.NettyServerBuilder.forAddress(address)
                : io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder.forAddress(address);
    }

    static ManagedChannelBuilder<?> channel(String target) {
        return UNSHADED ? io.grpc.netty.NettyChannelBuilder.forTarget(target)
                : io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder.forTarget(target);
    }
}

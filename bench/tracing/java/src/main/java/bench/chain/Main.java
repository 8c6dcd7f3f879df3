package bench.chain;

import bench.chain.v1.ChainGrpc;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.ServerBuilder;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;

/**
 * A Java service of the chain that the tracing bench measures, like {@code ../chain/node.go}. The same jar runs
 * untraced, with {@code -javaagent:faultloom-agent.jar}, and with {@code -javaagent:opentelemetry-javaagent.jar}.
 *
 * <pre>java -jar chain.jar node [NEXT [CALLS]]</pre>
 *
 * <p>NEXT is the address of the service that it calls, CALLS times (1) per request.
 *
 * <p>It prints one JSON line when it is ready, and then executes commands; see {@link Control}.
 */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws IOException {
        if (arguments.length < 1 || arguments.length > 3 || !arguments[0].equals("node")) {
            System.err.println("usage: java -jar chain.jar node [NEXT [CALLS]]");
            System.exit(2);
        }
        ChainGrpc.ChainBlockingStub next = null;
        if (arguments.length > 1) {
            next = ChainGrpc.newBlockingStub(Grpc.newChannelBuilder(arguments[1], InsecureChannelCredentials.create()).build());
        }
        int calls = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 1;
        ServerBuilder<?> builder = NettyServerBuilder.forAddress(
                new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), InsecureServerCredentials.create());
        Server server = builder.addService(new Node(next, calls)).build().start();
        Control.run("{\"address\":\"127.0.0.1:" + server.getPort() + "\"}");
        System.exit(0);
    }
}

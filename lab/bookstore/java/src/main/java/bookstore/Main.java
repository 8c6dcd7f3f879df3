package bookstore;

import io.grpc.Server;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;

/** Starts the delivery service. See ../README.md. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws IOException, InterruptedException {
        String bind = System.getenv().getOrDefault("BIND", "127.0.0.1");
        InetSocketAddress address = new InetSocketAddress(bind, Integer.parseInt(System.getenv("PORT")));
        Weights weights = new Weights(URI.create(System.getenv("STOCK_URL")));
        Server server = NettyServerBuilder.forAddress(address).addService(new Delivery(weights)).build().start();
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdownNow, "stop"));
        server.awaitTermination();
    }
}

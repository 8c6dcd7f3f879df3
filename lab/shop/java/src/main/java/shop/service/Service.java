package shop.service;

import io.grpc.BindableService;
import io.grpc.Server;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.services.HealthStatusManager;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * The main function of all Java services of the shop. Settings come from the environment: PORT (required) and BIND
 * (127.0.0.1). A service runs until SIGTERM or SIGINT; calls in progress then have 1.5 seconds to complete.
 */
public final class Service {
    private static final long STOP_TIMEOUT_MS = 1500;

    private Service() {}

    /** Serves until the process is stopped. An invalid setting prints one line on stderr and exits with status 1. */
    public static void main(String name, BindableService implementation) throws InterruptedException {
        try {
            run(address(System.getenv()), implementation);
        } catch (IllegalArgumentException | IOException e) {
            System.err.println(name + ": " + e.getMessage());
            System.exit(1);
        }
    }

    static InetSocketAddress address(Map<String, String> environment) {
        String text = environment.getOrDefault("PORT", "");
        int port = -1;
        try {
            port = Integer.parseInt(text);
        } catch (NumberFormatException e) {
            // reported below
        }
        if (port < 0 || port > 65535) {
            throw new IllegalArgumentException("PORT must be a port number, not \"" + text + "\"");
        }
        String bind = environment.getOrDefault("BIND", "");
        return new InetSocketAddress(bind.isEmpty() ? "127.0.0.1" : bind, port);
    }

    private static void run(InetSocketAddress address, BindableService implementation) throws IOException, InterruptedException {
        HealthStatusManager health = new HealthStatusManager();
        Server server = server(address, implementation, health).start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(server, health), "stop"));
        server.awaitTermination();
    }

    static Server server(InetSocketAddress address, BindableService implementation, HealthStatusManager health) {
        return NettyServerBuilder.forAddress(address).addService(implementation).addService(health.getHealthService()).build();
    }

    private static void stop(Server server, HealthStatusManager health) {
        health.enterTerminalState();
        server.shutdown();
        try {
            if (!server.awaitTermination(STOP_TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
                server.shutdownNow();
            }
        } catch (InterruptedException e) {
            server.shutdownNow();
        }
    }
}

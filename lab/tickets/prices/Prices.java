import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.Executors;

/** Serves the price of a ticket, in cents. */
public final class Prices {
    private static final Map<String, Integer> CENTS = Map.of("1", 4200, "2", 1850);

    public static void main(String[] arguments) throws IOException {
        int port = Integer.parseInt(System.getenv("PORT"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/healthz", exchange -> reply(exchange, 200, ""));
        server.createContext("/prices/", Prices::price);
        server.start();
    }

    private static void price(HttpExchange exchange) throws IOException {
        String path = exchange.getRequestURI().getPath();
        Integer cents = CENTS.get(path.substring(path.lastIndexOf('/') + 1));
        reply(exchange, cents == null ? 404 : 200, cents == null ? "{}" : "{\"cents\":" + cents + "}");
    }

    private static void reply(HttpExchange exchange, int status, String json) throws IOException {
        byte[] body = json.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("content-type", "application/json");
        exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }
}

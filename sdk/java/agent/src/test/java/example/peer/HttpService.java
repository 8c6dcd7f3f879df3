package example.peer;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

/** The JDK's HTTP server. */
final class HttpService {
    private HttpService() {}

    static int start() throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", HttpService::handle);
        server.start();
        return server.getAddress().getPort();
    }

    private static void handle(HttpExchange exchange) throws IOException {
        String body = new String(exchange.getRequestBody().readAllBytes());
        HttpAnswer answer = HttpAnswer.to(exchange.getRequestURI().getPath(), body);
        answer.headers.forEach(exchange.getResponseHeaders()::set);
        if (exchange.getRequestMethod().equals("HEAD") || answer.status == 204) {
            exchange.sendResponseHeaders(answer.status, -1);
        } else {
            exchange.sendResponseHeaders(answer.status, answer.chunked || answer.body.length == 0 ? 0 : answer.body.length);
            try (OutputStream out = exchange.getResponseBody()) {
                for (int at = 0; at < answer.body.length; at += 5000) {
                    out.write(answer.body, at, Math.min(5000, answer.body.length - at));
                    if (answer.flushes) {
                        out.flush();
                    }
                }
                if (!answer.after.isEmpty()) {
                    Script.run(answer.after);
                }
            }
        }
        exchange.close();
    }
}

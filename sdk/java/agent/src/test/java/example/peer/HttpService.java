package example.peer;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsExchange;
import com.sun.net.httpserver.HttpsServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.security.GeneralSecurityException;
import java.util.concurrent.Executors;

/** The JDK's HTTP server. */
final class HttpService {
    private HttpService() {}

    static int start() throws IOException {
        return start(HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0));
    }

    static int startSecure() throws IOException, GeneralSecurityException {
        HttpsServer server = HttpsServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setHttpsConfigurator(new HttpsConfigurator(Tls.context()));
        return start(server);
    }

    private static int start(HttpServer server) {
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", HttpService::handle);
        server.start();
        return server.getAddress().getPort();
    }

    private static void handle(HttpExchange exchange) throws IOException {
        if (exchange.getHttpContext().getServer() instanceof HttpsServer) {
            ((HttpsExchange) exchange).getSSLSession().getPeerHost(); // handlers of HTTPS may use this type
        }
        String body = new String(exchange.getRequestBody().readAllBytes());
        HttpReply reply = HttpReply.to(exchange.getRequestURI().getPath(), body);
        reply.headers.forEach(exchange.getResponseHeaders()::set);
        if (exchange.getRequestMethod().equals("HEAD") || reply.status == 204) {
            exchange.sendResponseHeaders(reply.status, -1);
        } else {
            exchange.sendResponseHeaders(reply.status, reply.chunked || reply.body.length == 0 ? 0 : reply.body.length);
            try (OutputStream out = exchange.getResponseBody()) {
                for (int at = 0; at < reply.body.length; at += 5000) {
                    out.write(reply.body, at, Math.min(5000, reply.body.length - at));
                    if (reply.flushes) {
                        out.flush();
                    }
                }
                if (!reply.after.isEmpty()) {
                    Script.run(reply.after);
                }
            }
        }
        exchange.close();
    }
}

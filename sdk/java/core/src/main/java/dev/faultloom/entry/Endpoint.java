package dev.faultloom.entry;

import static java.nio.charset.StandardCharsets.US_ASCII;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.Timer;
import java.util.TimerTask;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/**
 * The OTLP/HTTP endpoint of an exporter. It writes HTTP/1.1 to its own socket: every HTTP client of the process may be
 * instrumented, by us or by another tracer, and an export must not be traced.
 */
final class Endpoint {
    private static final int TIMEOUT_MS = 5000;
    private static final int MAX_STATUS_LINE = 256;

    private final boolean tls;
    private final String host;
    private final int port;
    private final String authority;
    private final String path;

    private Endpoint(URI uri) {
        tls = uri.getScheme().equalsIgnoreCase("https");
        host = uri.getHost().startsWith("[") ? uri.getHost().substring(1, uri.getHost().length() - 1) : uri.getHost();
        port = uri.getPort() >= 0 ? uri.getPort() : tls ? 443 : 80;
        authority = uri.getPort() >= 0 ? uri.getHost() + ":" + uri.getPort() : uri.getHost();
        String target = uri.getRawPath().isEmpty() ? "/" : uri.getRawPath();
        path = uri.getRawQuery() == null ? target : target + "?" + uri.getRawQuery();
    }

    /** Parses an {@code http:} or {@code https:} URL; null if it is anything else. */
    static Endpoint parse(String text) {
        try {
            URI uri = new URI(text);
            String scheme = uri.getScheme();
            boolean isSupported = scheme != null && (scheme.equalsIgnoreCase("http") || scheme.equalsIgnoreCase("https"));
            return isSupported && uri.getHost() != null && uri.getPort() <= 65535 ? new Endpoint(uri) : null;
        } catch (URISyntaxException e) {
            return null;
        }
    }

    /** Posts JSON and returns the status. Blocks for at most five seconds. */
    int post(byte[] json) throws IOException {
        Timer limit = new Timer("faultloom-export-limit", true);
        try (Socket plain = new Socket()) {
            limit.schedule(new TimerTask() {
                @Override
                public void run() {
                    close(plain); // pending reads and writes then fail
                }
            }, TIMEOUT_MS);
            plain.connect(new InetSocketAddress(host, port), TIMEOUT_MS);
            Socket socket = tls ? secured(plain) : plain;
            OutputStream out = socket.getOutputStream();
            String head = "POST " + path + " HTTP/1.1\r\nhost: " + authority
                    + "\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: " + json.length + "\r\n\r\n";
            out.write(head.getBytes(US_ASCII));
            out.write(json);
            out.flush();
            return status(socket.getInputStream());
        } finally {
            limit.cancel();
        }
    }

    private Socket secured(Socket plain) throws IOException {
        SSLSocket socket = (SSLSocket) ((SSLSocketFactory) SSLSocketFactory.getDefault()).createSocket(plain, host, port, true);
        SSLParameters parameters = socket.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        socket.setSSLParameters(parameters);
        return socket;
    }

    private static int status(InputStream in) throws IOException {
        StringBuilder line = new StringBuilder();
        for (int c = in.read(); c >= 0 && c != '\n' && line.length() < MAX_STATUS_LINE; c = in.read()) {
            line.append((char) c);
        }
        String text = line.toString();
        if (text.startsWith("HTTP/1.") && text.length() >= 12) {
            try {
                return Integer.parseInt(text.substring(9, 12));
            } catch (NumberFormatException e) {
                // reported below
            }
        }
        throw new IOException("the response is not HTTP");
    }

    private static void close(Socket socket) {
        try {
            socket.close();
        } catch (IOException e) {
            // nothing else to release
        }
    }
}

package example.peer;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.URI;
import java.net.URL;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;
import okhttp3.Call;
import okhttp3.Callback;
import okhttp3.Connection;
import okhttp3.ConnectionPool;
import okhttp3.EventListener;
import okhttp3.OkHttpClient;
import okhttp3.Protocol;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;

/** HTTP clients. They return {@code 200 text}, or the exception. */
final class HttpClients {
    private static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private static final OkHttpClient OKHTTP = new OkHttpClient();

    private HttpClients() {}

    static String call(String client, String method, String url, String body) {
        try {
            switch (client) {
                case "jdk":
                    return format(CLIENT.send(request(method, url, body), HttpResponse.BodyHandlers.ofByteArray()));
                case "jdk-stream":
                    HttpResponse<InputStream> streamed = CLIENT.send(request(method, url, body), HttpResponse.BodyHandlers.ofInputStream());
                    try (InputStream in = streamed.body()) {
                        return text(streamed.statusCode(), in.readAllBytes());
                    }
                case "jdk-async":
                    return CLIENT.sendAsync(request(method, url, body), HttpResponse.BodyHandlers.ofByteArray())
                            .thenApply(HttpClients::format).get(30, TimeUnit.SECONDS);
                case "jdk-compose":
                    return CLIENT.sendAsync(request(method, url, body), HttpResponse.BodyHandlers.ofByteArray())
                            .thenCompose(first -> CLIENT.sendAsync(request(method, url, body), HttpResponse.BodyHandlers.ofByteArray()))
                            .thenApplyAsync(HttpClients::format).get(30, TimeUnit.SECONDS);
                case "url":
                    return url(method, url, body, false);
                case "url-connect":
                    return url(method, url, body, true);
                case "okhttp":
                    try (Response response = okhttp(url).newCall(okhttpRequest(method, url, body)).execute()) {
                        return format(response);
                    }
                case "okhttp-events":
                    List<String> events = new ArrayList<>();
                    OkHttpClient listening = OKHTTP.newBuilder().connectionPool(new ConnectionPool())
                            .eventListener(listener(events)).build();
                    try (Response response = listening.newCall(okhttpRequest(method, url, body)).execute()) {
                        return format(response) + " " + events;
                    }
                case "okhttp-async":
                    CompletableFuture<String> end = new CompletableFuture<>();
                    okhttp(url).newCall(okhttpRequest(method, url, body)).enqueue(new Callback() {
                        @Override
                        public void onFailure(Call call, IOException e) {
                            end.complete(e.toString());
                        }

                        @Override
                        public void onResponse(Call call, Response response) throws IOException {
                            end.complete(format(response));
                        }
                    });
                    return end.get(30, TimeUnit.SECONDS);
                case "webclient":
                    return WebClients.call(method, url, body);
                case "netty":
                    return WebClients.netty(url);
                case "webclient-text":
                    return WebClients.text(method, url, body);
                case "webclient-flux":
                    return WebClients.callInParts(method, url, body);
                default:
                    return "no such client: " + client;
            }
        } catch (ExecutionException e) {
            return e.getCause().toString();
        } catch (Exception e) {
            return e.toString();
        }
    }

    private static HttpRequest request(String method, String url, String body) {
        HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create(url.replaceFirst("@[0-9]+$", "")));
        int at = url.lastIndexOf('@');
        if (at > 0) {
            builder.timeout(Duration.ofMillis(Long.parseLong(url.substring(at + 1))));
        }
        return builder.method(method, body.isEmpty() ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(body)).build();
    }

    /** {@code connects}: explicitly, before it reads. */
    private static String url(String method, String url, String body, boolean connects) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) new URL(url.replaceFirst("@[0-9]+$", "")).openConnection();
        int at = url.lastIndexOf('@');
        int timeoutMs = at < 0 ? 30_000 : Integer.parseInt(url.substring(at + 1));
        connection.setConnectTimeout(timeoutMs);
        connection.setReadTimeout(timeoutMs);
        connection.setRequestMethod(method);
        if (!body.isEmpty()) {
            connection.setDoOutput(true);
            // the default is a form, which containers parse themselves
            connection.setRequestProperty("Content-Type", "text/plain");
            connection.getOutputStream().write(body.getBytes(UTF_8));
        }
        if (connects) {
            connection.connect();
        }
        int status = connection.getResponseCode();
        if (connection.getHeaderFields().keySet().stream().anyMatch(name -> name != null && name.toLowerCase().startsWith("x-faultloom"))) {
            return "unexpected headers: " + connection.getHeaderFields();
        }
        try (InputStream in = status >= 400 ? connection.getErrorStream() : connection.getInputStream()) {
            int length = connection.getContentLength();
            byte[] bytes = in == null ? new byte[0] : in.readAllBytes();
            return length >= 0 && length != bytes.length ? "declared " + length + " bytes, sent " + bytes.length : text(status, bytes);
        }
    }

    /** Adds the names of some events to a list. */
    private static EventListener listener(List<String> events) {
        return new EventListener() {
            @Override
            public void callStart(Call call) {
                events.add("callStart");
            }

            @Override
            public void dnsEnd(Call call, String name, List<InetAddress> addresses) {
                events.add("dnsEnd " + name + " " + addresses);
            }

            @Override
            public void connectEnd(Call call, InetSocketAddress address, Proxy proxy, Protocol protocol) {
                events.add("connectEnd " + address + " " + proxy + " " + protocol);
            }

            @Override
            public void connectionAcquired(Call call, Connection connection) {
                events.add("connectionAcquired");
            }

            @Override
            public void responseBodyEnd(Call call, long bytes) {
                events.add("responseBodyEnd");
            }

            @Override
            public void callEnd(Call call) {
                events.add("callEnd");
            }
        };
    }

    private static OkHttpClient okhttp(String url) {
        int at = url.lastIndexOf('@');
        if (at < 0) {
            return OKHTTP;
        }
        Duration timeout = Duration.ofMillis(Long.parseLong(url.substring(at + 1)));
        return OKHTTP.newBuilder().connectTimeout(timeout).readTimeout(timeout).build();
    }

    private static Request okhttpRequest(String method, String url, String body) {
        return new Request.Builder().url(url.replaceFirst("@[0-9]+$", ""))
                .method(method, method.equals("GET") ? null : RequestBody.create(body.getBytes(UTF_8), null)).build();
    }

    private static String format(Response response) throws IOException {
        return response.headers().names().stream().anyMatch(name -> name.toLowerCase().startsWith("x-faultloom"))
                ? "unexpected headers: " + response.headers() : text(response.code(), response.body().bytes());
    }

    private static String format(HttpResponse<byte[]> response) {
        if (response.headers().map().keySet().stream().anyMatch(name -> name.startsWith("x-faultloom"))) {
            return "unexpected headers: " + response.headers();
        }
        return text(response.statusCode(), response.body());
    }

    static String text(int status, byte[] body) {
        if (body.length > 1000) {
            return status + " " + body.length + " bytes, sum " + sum(body);
        }
        return status + " " + new String(body, UTF_8);
    }

    private static long sum(byte[] body) {
        CRC32 sum = new CRC32();
        sum.update(body);
        return sum.getValue();
    }
}

package example.peer;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.protobuf.BytesValue;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.ProtoUtils;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URL;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import okhttp3.Callback;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.http.HttpMethod;
import org.springframework.http.client.reactive.ReactorClientHttpConnector;
import org.springframework.web.reactive.function.client.ClientResponse;
import org.springframework.web.reactive.function.client.WebClient;
import reactor.core.publisher.Mono;

/** Calls the scripted server of {@code xtask replies} with each client library, see xtask/src/replies/driver.rs. */
public final class ReplyDriver {
    private static final ScheduledExecutorService TIMER = Executors.newScheduledThreadPool(2);
    private static final HttpClient JDK = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private static final String BODY = "ping";
    private static final Map<String, Library> LIBRARIES = new LinkedHashMap<>();

    static {
        LIBRARIES.put("jdk", ReplyDriver::jdk);
        LIBRARIES.put("jdk-stream", ReplyDriver::jdkStream);
        LIBRARIES.put("jdk-async", ReplyDriver::jdkAsync);
        LIBRARIES.put("okhttp", ReplyDriver::okhttp);
        LIBRARIES.put("okhttp-async", ReplyDriver::okhttpAsync);
        LIBRARIES.put("url", ReplyDriver::url);
        LIBRARIES.put("url-input", ReplyDriver::urlInput);
        LIBRARIES.put("webclient", (call, out) -> webClient(call, out, ReplyDriver::readAtOnce));
        LIBRARIES.put("webclient-flux", (call, out) -> webClient(call, out, ReplyDriver::readInParts));
        LIBRARIES.put("grpc", (call, out) -> grpc(call, out, MethodType.UNARY));
        LIBRARIES.put("grpc-stream", (call, out) -> grpc(call, out, MethodType.SERVER_STREAMING));
    }

    private ReplyDriver() {}

    /** A library has no such limit. */
    private static final class Unsupported extends Exception {
        private static final long serialVersionUID = 1;
    }

    private interface Library {
        void call(Call call, Observed out) throws Exception;
    }

    private static final class Call {
        long timeoutMs; // 0: none
        long cancelMs; // 0: none
        String target;
        String method;
        /** The same for all calls of a case. */
        OkHttpClient okhttp;
        WebClient webClient;

        URI uri() {
            return URI.create("http://" + target);
        }

        void refuseCancel() throws Unsupported {
            if (cancelMs > 0) {
                throw new Unsupported();
            }
        }

        void cancelLater(Runnable cancel) {
            if (cancelMs > 0) {
                TIMER.schedule(cancel, cancelMs, TimeUnit.MILLISECONDS);
            }
        }
    }

    private static final class Observed {
        volatile int status;
        final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        void read(InputStream in) throws IOException {
            byte[] chunk = new byte[500];
            for (int n = in.read(chunk); n >= 0; n = in.read(chunk)) {
                synchronized (this) {
                    bytes.write(chunk, 0, n);
                }
            }
        }
    }

    private static HttpRequest.Builder builder(Call call) {
        boolean hasBody = call.method.equals("POST");
        HttpRequest.BodyPublisher body = hasBody ? HttpRequest.BodyPublishers.ofString(BODY) : HttpRequest.BodyPublishers.noBody();
        return HttpRequest.newBuilder(call.uri()).method(call.method, body);
    }

    /** A request; its timeout covers the time until the headers. */
    private static HttpRequest request(Call call) {
        HttpRequest.Builder builder = builder(call);
        if (call.timeoutMs > 0) {
            builder.timeout(Duration.ofMillis(call.timeoutMs));
        }
        return builder.build();
    }

    /** Without a limit for the body, a reply that stalls never ends. */
    private static void refuseEndlessBody(Call call) throws Unsupported {
        if (call.timeoutMs > 0 && !call.target.contains("before-head")) {
            throw new Unsupported();
        }
    }

    private static void jdk(Call call, Observed out) throws Exception {
        call.refuseCancel();
        refuseEndlessBody(call);
        HttpResponse<byte[]> response = JDK.send(request(call), HttpResponse.BodyHandlers.ofByteArray());
        out.status = response.statusCode();
        out.bytes.write(response.body());
    }

    private static void jdkStream(Call call, Observed out) throws Exception {
        refuseEndlessBody(call);
        call.refuseCancel();
        HttpResponse<InputStream> response = JDK.send(request(call), HttpResponse.BodyHandlers.ofInputStream());
        out.status = response.statusCode();
        try (InputStream in = response.body()) {
            out.read(in);
        }
    }

    private static void jdkAsync(Call call, Observed out) throws Exception {
        HttpRequest request = builder(call).build();
        CompletableFuture<HttpResponse<byte[]>> future = JDK.sendAsync(request, HttpResponse.BodyHandlers.ofByteArray());
        call.cancelLater(() -> future.cancel(true));
        // the limit of the application
        HttpResponse<byte[]> response = future.get(call.timeoutMs > 0 ? call.timeoutMs : 60_000, TimeUnit.MILLISECONDS);
        out.status = response.statusCode();
        out.bytes.write(response.body());
    }

    private static okhttp3.Call okhttpCall(Call call) {
        RequestBody body = call.method.equals("POST") ? RequestBody.create(BODY.getBytes(UTF_8)) : null;
        okhttp3.Call sent = call.okhttp.newCall(new Request.Builder().url(call.uri().toString()).method(call.method, body).build());
        call.cancelLater(sent::cancel);
        return sent;
    }

    private static void okhttp(Call call, Observed out) throws Exception {
        try (Response response = okhttpCall(call).execute()) {
            out.status = response.code();
            out.read(response.body().byteStream());
        }
    }

    private static void okhttpAsync(Call call, Observed out) throws Exception {
        CompletableFuture<Void> end = new CompletableFuture<>();
        okhttpCall(call).enqueue(new Callback() {
            @Override
            public void onFailure(okhttp3.Call sent, IOException e) {
                end.completeExceptionally(e);
            }

            @Override
            public void onResponse(okhttp3.Call sent, Response response) {
                try (response) {
                    out.status = response.code();
                    out.read(response.body().byteStream());
                    end.complete(null);
                } catch (IOException e) {
                    end.completeExceptionally(e);
                }
            }
        });
        end.get();
    }

    private static HttpURLConnection connection(Call call) throws IOException, Unsupported {
        if (!call.target.contains("before-head")) {
            call.refuseCancel(); // disconnecting does not end a read
        }
        HttpURLConnection connection = (HttpURLConnection) new URL("http://" + call.target).openConnection();
        connection.setReadTimeout((int) call.timeoutMs);
        connection.setRequestMethod(call.method);
        call.cancelLater(connection::disconnect);
        if (call.method.equals("POST")) {
            connection.setDoOutput(true);
            try (OutputStream body = connection.getOutputStream()) {
                body.write(BODY.getBytes(UTF_8));
            }
        }
        return connection;
    }

    private static void url(Call call, Observed out) throws Exception {
        HttpURLConnection connection = connection(call);
        out.status = connection.getResponseCode();
        try (InputStream in = out.status >= 400 ? connection.getErrorStream() : connection.getInputStream()) {
            if (in != null) {
                out.read(in);
            }
        }
    }

    /** Reads without looking at the status first. */
    private static void urlInput(Call call, Observed out) throws Exception {
        HttpURLConnection connection = connection(call);
        try (InputStream in = connection.getInputStream()) {
            out.status = connection.getResponseCode();
            out.read(in);
        } catch (IOException e) {
            InputStream error = connection.getErrorStream();
            if (error != null) {
                out.status = connection.getResponseCode();
                out.read(error);
            }
            throw e;
        }
    }

    private static Mono<Void> readAtOnce(ClientResponse response, Observed out) {
        return response.bodyToMono(byte[].class).doOnNext(out.bytes::writeBytes).then();
    }

    private static Mono<Void> readInParts(ClientResponse response, Observed out) {
        return response.bodyToFlux(DataBuffer.class).doOnNext(buffer -> {
            byte[] bytes = new byte[buffer.readableByteCount()];
            buffer.read(bytes);
            DataBufferUtils.release(buffer);
            synchronized (out) {
                out.bytes.writeBytes(bytes);
            }
        }).then();
    }

    private static void webClient(Call call, Observed out, BiFunction<ClientResponse, Observed, Mono<Void>> read) throws Exception {
        WebClient.RequestBodySpec request = call.webClient.method(HttpMethod.valueOf(call.method)).uri(call.uri());
        WebClient.RequestHeadersSpec<?> complete = call.method.equals("POST") ? request.bodyValue(BODY) : request;
        CompletableFuture<Void> future = complete.exchangeToMono(response -> {
            out.status = response.statusCode().value();
            return read.apply(response, out);
        }).toFuture();
        call.cancelLater(() -> future.cancel(true));
        future.get();
    }

    private static final MethodDescriptor.Marshaller<BytesValue> MESSAGE = ProtoUtils.marshaller(BytesValue.getDefaultInstance());

    private static void grpc(Call call, Observed out, MethodType type) throws Exception {
        int slash = call.target.indexOf('/');
        ManagedChannel channel = NettyChannelBuilder.forTarget(call.target.substring(0, slash)).usePlaintext().build();
        MethodDescriptor<BytesValue, BytesValue> method = MethodDescriptor.<BytesValue, BytesValue>newBuilder().setType(type)
                .setFullMethodName(call.target.substring(slash + 1)).setRequestMarshaller(MESSAGE).setResponseMarshaller(MESSAGE).build();
        CompletableFuture<Status> end = new CompletableFuture<>();
        try {
            CallOptions options = call.timeoutMs == 0 ? CallOptions.DEFAULT : CallOptions.DEFAULT.withDeadlineAfter(call.timeoutMs, TimeUnit.MILLISECONDS);
            ClientCall<BytesValue, BytesValue> sent = channel.newCall(method, options);
            sent.start(new ClientCall.Listener<BytesValue>() {
                @Override
                public void onMessage(BytesValue message) {
                    out.bytes.writeBytes(message.toByteArray());
                    out.bytes.write('|');
                    sent.request(1);
                }

                @Override
                public void onClose(Status status, Metadata trailers) {
                    end.complete(status);
                }
            }, new Metadata());
            sent.request(2);
            sent.sendMessage(BytesValue.getDefaultInstance());
            sent.halfClose();
            call.cancelLater(() -> sent.cancel("no longer needed", null));
            Status status = end.get();
            if (!status.isOk()) {
                throw new StatusException(status);
            }
        } finally {
            channel.shutdownNow();
        }
    }

    /** Types of an exception and its causes; for gRPC the code. */
    private static String type(Throwable error) {
        if (error instanceof StatusException) {
            return "grpc " + ((StatusException) error).getStatus().getCode();
        }
        StringBuilder types = new StringBuilder();
        for (Throwable one = error; one != null; one = one.getCause()) {
            // wrapped when an asynchronous result is read
            if (!(one instanceof ExecutionException)) {
                types.append(types.length() == 0 ? "" : " < ").append(one.getClass().getName());
            }
            if (one instanceof CancellationException) {
                break; // whether it has a cause depends on timing in the library
            }
        }
        return types.toString();
    }

    private static String run(String path) {
        String[] parts = path.split("/", 6);
        Call call = new Call();
        call.timeoutMs = Long.parseLong(parts[3]);
        call.cancelMs = Long.parseLong(parts[4]);
        call.target = parts[5];
        call.okhttp = new OkHttpClient.Builder().callTimeout(Duration.ofMillis(call.timeoutMs)).build();
        reactor.netty.http.client.HttpClient netty = reactor.netty.http.client.HttpClient.create();
        call.webClient = WebClient.builder().clientConnector(new ReactorClientHttpConnector(
                call.timeoutMs == 0 ? netty : netty.responseTimeout(Duration.ofMillis(call.timeoutMs))))
                .codecs(codecs -> codecs.defaultCodecs().maxInMemorySize(-1)).build();
        List<String> results = new ArrayList<>();
        for (String method : parts[2].split(",")) {
            call.method = method;
            results.add(run(LIBRARIES.get(parts[1]), call));
        }
        return results.toString();
    }

    private static String run(Library library, Call call) {
        Observed out = new Observed();
        String error = "";
        try {
            library.call(call, out);
        } catch (Unsupported e) {
            return "{\"unsupported\":true}";
        } catch (Exception e) {
            error = type(e);
        }
        StringBuilder hex = new StringBuilder();
        synchronized (out) {
            for (byte b : out.bytes.toByteArray()) {
                hex.append(String.format("%02x", b));
            }
        }
        return "{\"status\":" + out.status + ",\"bytes\":\"" + hex + "\",\"error\":\"" + error + "\"}";
    }

    private static void handle(HttpExchange exchange) throws IOException {
        byte[] reply = run(exchange.getRequestURI().getPath()).getBytes(UTF_8);
        exchange.sendResponseHeaders(200, reply.length);
        exchange.getResponseBody().write(reply);
        exchange.close();
    }

    public static void main(String[] arguments) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", ReplyDriver::handle);
        server.start();
        System.out.println("ready " + server.getAddress().getPort() + " " + String.join(" ", LIBRARIES.keySet()));
        while (System.in.read() >= 0) { } // until the parent ends
        System.exit(0);
    }
}

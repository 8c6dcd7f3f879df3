package relay;

import com.google.gson.Gson;
import com.google.gson.JsonParseException;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.grpc.ManagedChannel;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.services.HealthStatusManager;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.io.OutputStream;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import relay.RelayGrpc.RelayImplBase;
import relay.RelayOuterClass.Journey;
import relay.RelayOuterClass.Visits;

/** Forwards journeys over HTTP and gRPC. See ../README.md. */
public final class Relay extends RelayImplBase {
    /** The timeout of a call to the next stop. */
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(5);

    private final String name;
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final Map<String, ManagedChannel> channels = new ConcurrentHashMap<>();
    private final Gson gson = new Gson();

    private Relay(String name) {
        this.name = name;
    }

    private static final class Page {
        List<String> names = new ArrayList<>();
        String failure = "";
    }

    /** Visits this relay and then the stops. */
    private Page visit(List<String> stops) {
        Page visits = new Page();
        visits.names.add(name);
        if (stops.isEmpty()) {
            return visits;
        }
        String[] stop = stops.get(0).split(" ", 2);
        List<String> rest = stops.subList(1, stops.size());
        Page next = new Page();
        String failure = stop[0].equals("http") ? callHttp(stop[1], rest, next) : callGrpc(stop[0], stop[1], rest, next);
        visits.names.addAll(next.names);
        visits.failure = failure.isEmpty() ? next.failure : failure;
        return visits;
    }

    private String callHttp(String address, List<String> stops, Page next) {
        StringBuilder query = new StringBuilder();
        for (String stop : stops) {
            query.append(query.length() == 0 ? "" : "&").append("stop=").append(URLEncoder.encode(stop, StandardCharsets.UTF_8));
        }
        HttpRequest request =
                HttpRequest.newBuilder(URI.create("http://" + address + "/relay?" + query)).timeout(CALL_TIMEOUT).build();
        HttpResponse<String> reply;
        try {
            reply = http.send(request, HttpResponse.BodyHandlers.ofString());
        } catch (HttpTimeoutException e) {
            return "timeout";
        } catch (ConnectException e) {
            return "refused";
        } catch (IOException e) {
            return "reset"; // the client reports a closed connection with many different messages
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return "interrupted";
        }
        if (reply.statusCode() != 200) {
            return "status " + reply.statusCode();
        }
        Page page;
        try {
            page = gson.fromJson(reply.body(), Page.class);
        } catch (JsonParseException e) {
            return "garbled";
        }
        if (page == null) {
            return "garbled";
        }
        merge(next, page);
        return "";
    }

    private String callGrpc(String kind, String address, List<String> stops, Page next) {
        RelayGrpc.RelayStub stub = RelayGrpc.newStub(channels.computeIfAbsent(
                        address, a -> NettyChannelBuilder.forTarget(a).usePlaintext().build()))
                .withDeadlineAfter(CALL_TIMEOUT.toMillis(), TimeUnit.MILLISECONDS);
        Journey journey = Journey.newBuilder().addAllStops(stops).build();
        Replies replies = new Replies();
        try {
            switch (kind) {
                case "watch":
                    stub.watch(journey, replies);
                    break;
                case "collect": {
                    StreamObserver<Journey> journeys = stub.collect(replies);
                    journeys.onNext(journey);
                    journeys.onNext(journey);
                    journeys.onCompleted();
                    break;
                }
                case "talk": {
                    StreamObserver<Journey> journeys = stub.talk(replies);
                    journeys.onNext(journey);
                    if (replies.take(next)) {
                        journeys.onNext(journey);
                        replies.take(next);
                    }
                    journeys.onCompleted();
                    break;
                }
                default:
                    stub.call(journey, replies);
            }
            while (replies.take(next)) {
                continue;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return "interrupted";
        }
        return replies.end.isOk() ? "" : "grpc " + replies.end.getCode().value();
    }

    /** The replies in the order of their arrival, followed by a status. */
    private static final class Replies implements StreamObserver<Visits> {
        private final BlockingQueue<Object> queue = new LinkedBlockingQueue<>();
        Status end;

        /** Waits for the next reply and merges it into {@code next}; false at the end. */
        boolean take(Page next) throws InterruptedException {
            if (end != null) {
                return false;
            }
            Object received = queue.take();
            if (received instanceof Status) {
                end = (Status) received;
                return false;
            }
            Visits visits = (Visits) received;
            Page page = new Page();
            page.names = visits.getNamesList();
            page.failure = visits.getFailure();
            merge(next, page);
            return true;
        }

        @Override
        public void onNext(Visits visits) {
            queue.add(visits);
        }

        @Override
        public void onError(Throwable e) {
            queue.add(Status.fromThrowable(e));
        }

        @Override
        public void onCompleted() {
            queue.add(Status.OK);
        }
    }

    private static void merge(Page all, Page one) {
        all.names.addAll(one.names);
        if (all.failure.isEmpty()) {
            all.failure = one.failure;
        }
    }

    private Visits visits(Journey journey) {
        return message(visit(journey.getStopsList()));
    }

    private static Visits message(Page page) {
        return Visits.newBuilder().addAllNames(page.names).setFailure(page.failure).build();
    }

    @Override
    public void call(Journey journey, StreamObserver<Visits> reply) {
        reply.onNext(visits(journey));
        reply.onCompleted();
    }

    @Override
    public void watch(Journey journey, StreamObserver<Visits> reply) {
        reply.onNext(visits(journey));
        reply.onNext(visits(journey));
        reply.onCompleted();
    }

    @Override
    public StreamObserver<Journey> collect(StreamObserver<Visits> reply) {
        Page all = new Page();
        return new Journeys() {
            @Override
            public void onNext(Journey journey) {
                merge(all, visit(journey.getStopsList()));
            }

            @Override
            public void onCompleted() {
                reply.onNext(message(all));
                reply.onCompleted();
            }
        };
    }

    @Override
    public StreamObserver<Journey> talk(StreamObserver<Visits> reply) {
        return new Journeys() {
            @Override
            public void onNext(Journey journey) {
                reply.onNext(visits(journey));
            }

            @Override
            public void onCompleted() {
                reply.onCompleted();
            }
        };
    }

    private abstract static class Journeys implements StreamObserver<Journey> {
        @Override
        public void onError(Throwable e) {} // the caller has disconnected and expects no reply
    }

    private void page(HttpExchange exchange) throws IOException {
        List<String> stops = new ArrayList<>();
        String query = exchange.getRequestURI().getRawQuery();
        for (String part : query == null ? new String[0] : query.split("&")) {
            if (part.startsWith("stop=")) {
                stops.add(URLDecoder.decode(part.substring(5), StandardCharsets.UTF_8));
            }
        }
        byte[] body = gson.toJson(visit(stops)).getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("content-type", "application/json");
        exchange.sendResponseHeaders(200, body.length);
        try (OutputStream out = exchange.getResponseBody()) {
            out.write(body);
        }
    }

    public static void main(String[] arguments) throws IOException, InterruptedException {
        Relay relay = new Relay(System.getenv("NAME"));
        HttpServer web = HttpServer.create(loopback("PORT"), 0);
        web.setExecutor(Executors.newFixedThreadPool(8));
        web.createContext("/relay", relay::page);
        web.createContext("/healthz", exchange -> {
            exchange.sendResponseHeaders(200, -1);
            exchange.close();
        });
        web.start();
        Server server = NettyServerBuilder.forAddress(loopback("GRPC_PORT"))
                .addService(relay)
                .addService(new HealthStatusManager().getHealthService())
                .build()
                .start();
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdownNow, "stop"));
        server.awaitTermination();
    }

    private static InetSocketAddress loopback(String key) {
        return new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv(key)));
    }
}

package example.peer;

import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import java.util.Arrays;
import java.util.concurrent.Callable;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DefaultDataBufferFactory;
import org.springframework.http.server.reactive.ReactorHttpHandlerAdapter;
import org.springframework.web.reactive.function.BodyInserters;
import org.springframework.web.reactive.function.server.RequestPredicates;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerRequest;
import org.springframework.web.reactive.function.server.ServerResponse;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.netty.http.server.HttpServer;

/** Serves {@link HttpReply} with Spring WebFlux on Reactor Netty. */
final class WebFluxService {
    private WebFluxService() {}

    static int start() {
        return start(HttpServer.create());
    }

    static int startSecure() throws Exception {
        SslContext context = SslContextBuilder.forServer(Tls.keys()).build();
        return start(HttpServer.create().secure(tls -> tls.sslContext(context)));
    }

    private static int start(HttpServer server) {
        ReactorHttpHandlerAdapter adapter = new ReactorHttpHandlerAdapter(RouterFunctions.toHttpHandler(
                RouterFunctions.route(RequestPredicates.all(), WebFluxService::handle)));
        return server.host("127.0.0.1").port(0).handle(adapter).bindNow().port();
    }

    private static Mono<ServerResponse> handle(ServerRequest request) {
        return request.bodyToMono(String.class).defaultIfEmpty("")
                .flatMap(body -> blocking(() -> HttpReply.to(request.path(), body)))
                .flatMap(WebFluxService::respond);
    }

    /** Runs a task that may block on a thread for that. */
    static <T> Mono<T> blocking(Callable<T> task) {
        return Mono.fromCallable(task).subscribeOn(Schedulers.boundedElastic());
    }

    private static Mono<ServerResponse> respond(HttpReply reply) {
        ServerResponse.BodyBuilder response = ServerResponse.status(reply.status).headers(headers -> reply.headers.forEach(headers::set));
        if (reply.body.length == 0) {
            return response.build();
        }
        if (!reply.chunked) {
            response.contentLength(reply.body.length);
        }
        Flux<DataBuffer> parts = Flux.range(0, (reply.body.length + 4999) / 5000)
                .map(part -> wrap(Arrays.copyOfRange(reply.body, part * 5000, Math.min(reply.body.length, (part + 1) * 5000))));
        if (!reply.after.isEmpty()) {
            parts = parts.concatWith(blocking(() -> Script.run(reply.after)).then(Mono.empty()));
        }
        if (reply.flushes) {
            Flux<DataBuffer> flushed = parts;
            return response.body((message, context) -> message.writeAndFlushWith(flushed.map(Mono::just)));
        }
        return response.body(BodyInserters.fromDataBuffers(parts));
    }

    private static DataBuffer wrap(byte[] bytes) {
        return DefaultDataBufferFactory.sharedInstance.wrap(bytes);
    }
}

package dev.faultloom.hooks.webflux;

import java.time.Duration;
import org.reactivestreams.Publisher;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.http.server.reactive.ServerHttpResponseDecorator;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/**
 * The response for the application: the history is added to its headers, or follows its body. The request ends with
 * its body.
 */
final class TracedResponse extends ServerHttpResponseDecorator {
    /** How long the first bytes of a body wait for the rest, before the headers are sent. */
    private static final Duration MAX_WAIT = Duration.ofMillis(100);
    private static final Object FLUSH = new Object();

    private final ServerReply reply;

    TracedResponse(ServerHttpResponse response, ServerReply reply) {
        super(response);
        this.reply = reply;
    }

    ServerReply reply() {
        return reply;
    }

    private DataBuffer wrap(byte[] bytes) {
        return bufferFactory().wrap(bytes);
    }

    /** A publisher of these bytes, if there are any. */
    private Flux<DataBuffer> publish(byte[] bytes) {
        return bytes.length == 0 ? Flux.empty() : Flux.just(wrap(bytes));
    }

    @Override
    public Mono<Void> writeWith(Publisher<? extends DataBuffer> body) {
        // the servers send a body of one item with its length, and so it stays one item
        return getDelegate().writeWith(body instanceof Mono ? whole(body) : parts(body));
    }

    private Mono<DataBuffer> whole(Publisher<? extends DataBuffer> body) {
        return Mono.from(body).map(buffer -> {
            byte[] first = reply.add(Buffers.take(buffer));
            byte[] rest = reply.end();
            DataBuffer all = bufferFactory().allocateBuffer(Math.max(1, first.length + rest.length));
            return all.write(first).write(rest);
        });
    }

    /** Sends the headers with the first bytes that are sent: the server waits for them. */
    private Flux<DataBuffer> parts(Publisher<? extends DataBuffer> body) {
        return Flux.defer(() -> {
            Sinks.Empty<Void> ended = Sinks.empty();
            Flux<Object> items = Flux.from(body).<Object>map(buffer -> buffer).doOnTerminate(ended::tryEmitEmpty);
            Mono<Object> timer = Mono.delay(MAX_WAIT).map(elapsed -> FLUSH).takeUntilOther(ended.asMono());
            return Flux.mergeDelayError(32, items, timer)
                    .<DataBuffer>handle((item, sink) -> {
                        byte[] bytes = item == FLUSH ? reply.flushNow() : reply.add(Buffers.take((DataBuffer) item));
                        if (bytes.length > 0) {
                            sink.next(wrap(bytes));
                        }
                    })
                    // an error after the first bytes breaks the reply off, and before them leaves it to the application
                    .onErrorResume(error -> publish(reply.flushNow()).concatWith(Flux.error(error)))
                    .concatWith(Flux.defer(() -> publish(reply.end())));
        });
    }

    @Override
    public Mono<Void> writeAndFlushWith(Publisher<? extends Publisher<? extends DataBuffer>> body) {
        Flux<Publisher<DataBuffer>> parts = Flux.from(body).map(part -> {
            byte[] first = reply.commitNow();
            return publish(first).concatWith(Flux.from(part).map(buffer -> wrap(reply.add(Buffers.take(buffer)))));
        });
        Flux<Publisher<DataBuffer>> end = Flux.defer(() -> {
            byte[] last = reply.end();
            return last.length == 0 ? Flux.empty() : Flux.just(publish(last));
        });
        return getDelegate().writeAndFlushWith(parts.concatWith(end));
    }

    @Override
    public Mono<Void> setComplete() {
        return Mono.defer(() -> {
            byte[] last = isCommitted() ? new byte[0] : reply.end();
            return last.length == 0 ? getDelegate().setComplete() : getDelegate().writeWith(Mono.just(wrap(last)));
        });
    }
}

package dev.faultloom.hooks.webflux;

import dev.faultloom.hooks.faults.Faults;
import dev.faultloom.hooks.http.HttpCall;
import dev.faultloom.hooks.http.TailWindow;
import java.util.Arrays;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.core.io.buffer.DefaultDataBufferFactory;
import org.springframework.web.reactive.function.BodyExtractors;
import org.springframework.web.reactive.function.client.ClientResponse;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The body of a reply for the application: without a tail, and changed by a fault. */
final class ReplyBody {
    private ReplyBody() {}

    static Flux<DataBuffer> of(Flux<DataBuffer> body, boolean tail, HttpCall call) {
        Flux<DataBuffer> own = tail ? withoutTail(body, call) : body;
        return call.effect.changesBody() ? DataBufferUtils.join(own).map(all -> change(Buffers.take(all), call)).flux() : own;
    }

    /** Reads a lost reply to its end, for the history. Its own failure does not matter. */
    static Mono<Void> drain(ClientResponse response, boolean tail, HttpCall call) {
        Flux<DataBuffer> body = response.body(BodyExtractors.toDataBuffers());
        return (tail ? withoutTail(body, call) : body).doOnNext(DataBufferUtils::release).onErrorResume(e -> Flux.empty()).then();
    }

    private static DataBuffer wrap(byte[] bytes) {
        return DefaultDataBufferFactory.sharedInstance.wrap(bytes);
    }

    private static DataBuffer change(byte[] bytes, HttpCall call) {
        return wrap(Arrays.copyOf(bytes, Faults.changeBody(call.effect.outcome, bytes, bytes.length)));
    }

    private static Flux<DataBuffer> withoutTail(Flux<DataBuffer> body, HttpCall call) {
        return Flux.defer(() -> {
            TailWindow window = new TailWindow();
            return body.<DataBuffer>handle((buffer, sink) -> {
                byte[] bytes = Buffers.take(buffer);
                window.add(bytes, 0, bytes.length);
                call.recordIfComplete(window);
                if (window.ready() > 0) {
                    sink.next(wrap(window.take()));
                }
            }).onErrorResume(error -> {
                call.recordReply(null);
                window.releaseAll(); // no tail will come: bytes that were held back belong to the body
                return rest(window).concatWith(Flux.error(error));
            }).concatWith(Flux.defer(() -> {
                call.recordReply(window.finish());
                return rest(window);
            })).doOnCancel(() -> call.recordReply(null));
        });
    }

    private static Flux<DataBuffer> rest(TailWindow window) {
        return window.ready() == 0 ? Flux.empty() : Flux.just(wrap(window.take()));
    }
}

package dev.faultloom.hooks.webflux;

import dev.faultloom.hooks.http.HttpCall;
import dev.faultloom.hooks.reactor.ReactorHooks;
import dev.faultloom.scope.Scope;
import dev.faultloom.scope.ScopeContext;
import dev.faultloom.wire.Bridge;
import dev.faultloom.wire.Envelope;
import io.netty.handler.timeout.ReadTimeoutException;
import java.lang.reflect.Field;
import java.net.ConnectException;
import java.net.SocketException;
import java.time.Duration;
import java.util.concurrent.CancellationException;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.client.reactive.ReactorClientHttpConnector;
import org.springframework.web.reactive.function.client.ClientRequest;
import org.springframework.web.reactive.function.client.ClientResponse;
import org.springframework.web.reactive.function.client.ExchangeFunction;
import org.springframework.web.reactive.function.client.ExchangeStrategies;
import org.springframework.web.reactive.function.client.WebClientRequestException;
import reactor.core.publisher.Mono;
import reactor.netty.http.client.HttpClient;

/**
 * Spring's {@code WebClient} on Reactor Netty, below the filters of the application. Each subscription is one call. On
 * {@code java.net.http} the hooks of that client trace it.
 */
public final class WebClientHooks {
    /** Whether this thread is inside {@link #exchangeUnchanged}. */
    private static final ThreadLocal<boolean[]> UNCHANGED = ThreadLocal.withInitial(() -> new boolean[1]);
    /** The client of a connector; null: unknown, so that faults do not know the caller's timeout. */
    private static final Field CLIENT = clientField();

    private WebClientHooks() {}

    private static Field clientField() {
        try {
            Field field = ReactorClientHttpConnector.class.getDeclaredField("httpClient");
            field.setAccessible(true);
            return field;
        } catch (ReflectiveOperationException | RuntimeException e) {
            return null;
        }
    }

    /** The result of an exchange that is traced; null: the library continues. */
    public static Object exchangeInstead(Object function, Object connector, Object strategies, Object request) {
        if (UNCHANGED.get()[0] || !(connector instanceof ReactorClientHttpConnector) || !(request instanceof ClientRequest)) {
            return null;
        }
        Sender sender = new Sender((ExchangeFunction) function, (ReactorClientHttpConnector) connector, (ExchangeStrategies) strategies);
        return Mono.deferContextual(reactor -> sender.send(ReactorHooks.context(reactor), (ClientRequest) request));
    }

    /** Sends the requests of one client. */
    private static final class Sender {
        private final ExchangeFunction function;
        private final ReactorClientHttpConnector connector;
        private final ExchangeStrategies strategies;

        Sender(ExchangeFunction function, ReactorClientHttpConnector connector, ExchangeStrategies strategies) {
            this.function = function;
            this.connector = connector;
            this.strategies = strategies;
        }

        Mono<ClientResponse> send(ScopeContext context, ClientRequest request) {
            HttpCall call = Scope.anyUnfinished() ? begin(context, request) : null;
            if (call == null) {
                return exchangeUnchanged(request);
            }
            Mono<ClientResponse> sent;
            if (call.effect.waits()) {
                sent = Mono.fromFuture(call::waitForFaultAsync).flatMap(sends -> sends ? sendNow(call, request) : endUnsent(call, request));
            } else {
                sent = call.effect.sends ? sendNow(call, request) : endUnsent(call, request);
            }
            return ReactorHooks.bind(sent.doOnCancel(() -> call.recordFailure(new CancellationException())), call.context());
        }

        private HttpCall begin(ScopeContext context, ClientRequest request) {
            boolean tail = HttpCall.canRemoveTail(request.method().name(), name -> Buffers.joinedValues(request.headers(), name));
            return HttpCall.begin(context, request.url(), request.method().name(), tail, timeoutNanos());
        }

        private Mono<ClientResponse> exchangeUnchanged(ClientRequest request) {
            boolean[] unchanged = UNCHANGED.get();
            boolean before = unchanged[0];
            unchanged[0] = true;
            try {
                return ReactorHooks.known(function.exchange(request));
            } finally {
                unchanged[0] = before;
            }
        }

        /** How long the client waits for a reply at most. */
        private long timeoutNanos() {
            try {
                HttpClient client = CLIENT == null ? null : (HttpClient) CLIENT.get(connector);
                Duration timeout = client == null ? null : client.configuration().responseTimeout();
                return timeout == null ? Long.MAX_VALUE : timeout.toNanos();
            } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
                return Long.MAX_VALUE;
            }
        }

        private Mono<ClientResponse> sendNow(HttpCall call, ClientRequest request) {
            return exchangeUnchanged(withOurHeaders(request, call)).doOnError(call::recordFailure)
                    .flatMap(response -> receive(response, request, call));
        }

        private Mono<ClientResponse> receive(ClientResponse response, ClientRequest request, HttpCall call) {
            HttpHeaders received = response.headers().asHttpHeaders();
            boolean tail = call.replyStarted(response.statusCode().value(), name -> Buffers.joinedValues(received, name));
            if (call.effect.losesReply()) {
                return ReplyBody.drain(response, tail, call).then(failure(new SocketException("Connection reset"), request));
            }
            boolean hasOurs = received.getFirst(Envelope.HISTORY_HEADER) != null || received.getFirst(Envelope.REPLY_HEADER) != null;
            if (!hasOurs && !call.effect.changesBody()) {
                return Mono.just(response);
            }
            ClientResponse.Builder builder = response.mutate().headers(headers -> {
                headers.remove(Envelope.HISTORY_HEADER);
                headers.remove(Envelope.REPLY_HEADER);
                if (tail || call.effect.changesBody()) {
                    headers.remove(HttpHeaders.CONTENT_LENGTH);
                }
            });
            if (tail || call.effect.changesBody()) {
                builder.body(body -> ReplyBody.of(body, tail, call));
            }
            return Mono.just(builder.build());
        }

        /** Ends a request that a fault does not send, with the exceptions of Reactor Netty. */
        private Mono<ClientResponse> endUnsent(HttpCall call, ClientRequest request) {
            call.recordUnsent();
            switch (call.effect.end.outcome) {
                case REFUSED:
                    return failure(new ConnectException("Connection refused: " + HttpCall.authority(request.url())), request);
                case RESET:
                    return failure(new SocketException("Connection reset"), request);
                case STATUS:
                    return Mono.just(ClientResponse.create(HttpStatusCode.valueOf(call.faultStatus()), strategies)
                            .header(HttpHeaders.CONTENT_LENGTH, "0").build());
                default:
                    return failure(ReadTimeoutException.INSTANCE, request);
            }
        }
    }

    private static Mono<ClientResponse> failure(Throwable error, ClientRequest request) {
        return Mono.error(() -> new WebClientRequestException(error, request.method(), request.url(), request.headers()));
    }

    private static ClientRequest withOurHeaders(ClientRequest request, HttpCall call) {
        return ClientRequest.from(request).headers(headers -> {
            set(headers, Envelope.HTTP_HEADER, call.header()); // replaces an envelope that the application forwarded
            if (call.isBridged()) {
                Bridge bridge = call.injectBridge(
                        Buffers.joinedValues(headers, Bridge.TRACEPARENT), Buffers.joinedValues(headers, Bridge.BAGGAGE));
                set(headers, Bridge.TRACEPARENT, bridge.traceparent);
                set(headers, Bridge.BAGGAGE, bridge.baggage);
            }
        }).build();
    }

    private static void set(HttpHeaders headers, String name, String value) {
        if (value == null) {
            headers.remove(name);
        } else {
            headers.set(name, value);
        }
    }
}

package example.boot.reactive;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import org.springframework.http.HttpStatus;
import org.springframework.http.client.reactive.JdkClientHttpConnector;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.reactive.function.client.WebClient;
import org.springframework.web.reactive.function.client.WebClientException;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;

/** Calls another service, in each of the ways that reactive applications use. */
@RestController
public class Calls {
    private static final HttpClient JDK = HttpClient.newHttpClient();

    private final WebClient client;
    private final WebClient jdkClient;
    /** A publisher that all requests share: the thread that emits works for none of them. */
    private final Sinks.Many<String> ticks = Sinks.many().multicast().directBestEffort();

    public Calls(WebClient client) {
        this.client = client;
        jdkClient = client.mutate().clientConnector(new JdkClientHttpConnector(JDK)).build();
        Flux.interval(Duration.ofMillis(5)).subscribe(tick -> ticks.tryEmitNext("tick"));
    }

    @GetMapping("/call/{way}")
    public Mono<String> call(@PathVariable("way") String way, @RequestParam("url") String url) {
        switch (way) {
            case "plain":
                return get(url);
            case "flat-map":
                return get(url).flatMap(first -> get(url));
            case "zip":
                return Mono.zip(get(url), get(url), String::concat);
            case "retry":
                return get(url).filter(reply -> false).switchIfEmpty(Mono.error(new IllegalStateException("again")))
                        .retry(1).onErrorReturn("twice");
            case "jdk-connector":
                return jdkClient.get().uri(URI.create(url)).retrieve().bodyToMono(String.class);
            case "delayed":
                return Mono.delay(Duration.ofMillis(10)).then(get(url));
            case "publish-on":
                return Mono.just(url).publishOn(Schedulers.parallel()).flatMap(this::get);
            case "parallel":
                return Flux.range(0, 6).parallel(3).runOn(Schedulers.parallel()).flatMap(i -> get(url)).sequential().then(Mono.just("all"));
            case "shared":
                return ticks.asFlux().next().flatMap(tick -> get(url));
            case "blocking":
                return Mono.fromCallable(() -> blocking(url)).subscribeOn(Schedulers.boundedElastic());
            case "shared-blocking":
                return ticks.asFlux().next().publishOn(Schedulers.boundedElastic()).map(tick -> blocking(url));
            case "future":
                return Mono.fromFuture(() -> JDK.sendAsync(HttpRequest.newBuilder(URI.create(url)).build(), HttpResponse.BodyHandlers.ofString()))
                        .map(HttpResponse::body).flatMap(first -> get(url));
            case "timeout":
                return get(url).timeout(Duration.ofMillis(200)).onErrorReturn("too late");
            case "subscribed":
                Mono<String> started = get(url).cache();
                started.subscribe();
                return started.delayElement(Duration.ofMillis(5)).flatMap(first -> get(url));
            default:
                return Mono.error(new IllegalArgumentException(way));
        }
    }

    private Mono<String> get(String url) {
        return client.get().uri(URI.create(url)).retrieve().bodyToMono(String.class);
    }

    private static String blocking(String url) {
        try {
            return JDK.send(HttpRequest.newBuilder(URI.create(url)).build(), HttpResponse.BodyHandlers.ofString()).body();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    @ExceptionHandler(WebClientException.class)
    @ResponseStatus(HttpStatus.BAD_GATEWAY)
    public String failed(WebClientException e) {
        return String.valueOf(e.getMessage());
    }
}

package example.boot.reactive;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.ConnectableFlux;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Routes of every kind. */
@RestController
@RequestMapping("/product")
public class Products {
    @GetMapping
    public Mono<String> all() {
        return Mono.just("all");
    }

    @GetMapping("/{id}")
    public Mono<Map<String, String>> one(@PathVariable("id") String id) {
        return Mono.just(Map.of("id", id));
    }

    @GetMapping("/special")
    public String special() {
        return "special";
    }

    @GetMapping("/{id:[0-9]{2,4}}/number")
    public Mono<String> number(@PathVariable("id") String id) {
        return Mono.just(id);
    }

    @GetMapping("/{id}/files/{*path}")
    public Mono<String> file(@PathVariable("path") String path) {
        return Mono.just(path);
    }

    @GetMapping(value = "/{id}/parts", produces = MediaType.TEXT_PLAIN_VALUE)
    public Flux<String> parts(@PathVariable("id") String id) {
        return Flux.just(id, "-", id);
    }

    @GetMapping(value = "/{id}/events", produces = MediaType.TEXT_EVENT_STREAM_VALUE)
    public Flux<String> events(@PathVariable("id") String id) {
        return Flux.just(id, id);
    }

    @GetMapping(value = "/{id}/lines", produces = MediaType.APPLICATION_NDJSON_VALUE)
    public Flux<Map<String, String>> lines(@PathVariable("id") String id) {
        return Flux.just(Map.of("id", id), Map.of("id", id));
    }

    /** Its second part comes late. */
    @GetMapping(value = "/{id}/slow", produces = MediaType.TEXT_PLAIN_VALUE)
    public Flux<String> slow(@PathVariable("id") String id) {
        return Flux.just(id).concatWith(Mono.delay(Duration.ofSeconds(2)).map(elapsed -> id));
    }

    @GetMapping(value = "/{id}/broken", produces = MediaType.TEXT_PLAIN_VALUE)
    public Flux<String> broken(@PathVariable("id") String id) {
        return Flux.just(id).concatWith(Mono.error(new IllegalStateException(id)));
    }

    @GetMapping(value = "/{id}/broken-at-once", produces = MediaType.TEXT_PLAIN_VALUE)
    public Flux<String> brokenAtOnce(@PathVariable("id") String id) {
        return Flux.error(new IllegalStateException(id));
    }

    /** Operators of each family, of which some pass items in queues. */
    @GetMapping("/{id}/operators")
    public Mono<String> operators(@PathVariable("id") String id) {
        Flux<Integer> shared = Flux.range(1, 40).hide().publish().refCount(2);
        ConnectableFlux<Integer> replayed = Flux.range(1, 10).filter(i -> i % 2 == 0).replay();
        replayed.connect();
        return Flux.concat(
                Flux.range(1, 30).groupBy(i -> i % 3).flatMap(group -> group.reduce(Integer::sum)).sort(),
                Flux.range(1, 20).window(5).concatMap(window -> window.map(i -> i * i).reduce(Integer::sum)),
                Flux.zip(shared, shared.skip(1), Integer::sum).takeLast(2),
                replayed.publishOn(Schedulers.parallel(), 2).distinct().map(i -> i + 1),
                Flux.range(1, 100).parallel(4).runOn(Schedulers.parallel()).map(i -> i * 2).sequential().reduce(Integer::sum),
                Flux.fromIterable(List.of(3, 1, 2)).concatMapIterable(i -> List.of(i, i)).buffer(4).map(List::size),
                Mono.just(7).expand(i -> i < 10 ? Mono.just(i + 1) : Mono.empty()),
                Mono.just(1).cache().repeat(2).scan(Integer::sum),
                Flux.<Integer>create(sink -> sink.next(5).complete()).onBackpressureBuffer().switchMap(i -> Flux.just(i, i)),
                Flux.just(1, 0).map(i -> 10 / i).onErrorReturn(-1),
                Mono.fromCallable(() -> 9).subscribeOn(Schedulers.boundedElastic()).timeout(Duration.ofSeconds(30)).flux())
                .map(String::valueOf).collect(Collectors.joining(","));
    }

    @GetMapping("/{id}/nothing")
    @ResponseStatus(HttpStatus.NO_CONTENT)
    public Mono<Void> nothing(@PathVariable("id") String id) {
        return Mono.empty();
    }

    @GetMapping("/{id}/refused")
    public Mono<String> refused(@PathVariable("id") String id) {
        return Mono.error(new UnsupportedOperationException(id));
    }

    @GetMapping("/{id}/throws")
    public String fails(@PathVariable("id") String id) {
        throw new IllegalStateException(id);
    }

    @ExceptionHandler(UnsupportedOperationException.class)
    @ResponseStatus(HttpStatus.CONFLICT)
    public String conflict() {
        return "conflict";
    }
}

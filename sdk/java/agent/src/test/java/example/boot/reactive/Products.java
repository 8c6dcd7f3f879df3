package example.boot.reactive;

import java.util.Map;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

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

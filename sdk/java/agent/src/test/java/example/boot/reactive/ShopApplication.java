package example.boot.reactive;

import example.boot.Ready;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.web.reactive.function.client.WebClient;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerResponse;

/** A Spring Boot application on WebFlux and Reactor Netty. */
@SpringBootApplication(proxyBeanMethods = false)
public class ShopApplication {
    public static void main(String[] arguments) {
        SpringApplication application = new SpringApplication(ShopApplication.class);
        application.addListeners(new Ready());
        application.run(arguments);
    }

    @Bean
    public WebClient client(WebClient.Builder builder) {
        return builder.build();
    }

    @Bean
    public RouterFunction<ServerResponse> functions() {
        return RouterFunctions.route().path("/function/{tenant}", nested -> nested
                .GET("/{id}", request -> ServerResponse.ok().bodyValue(request.pathVariable("id")))).build();
    }
}

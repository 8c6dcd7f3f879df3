package example.boot.servlet;

import example.boot.Ready;
import java.net.URI;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.http.client.ClientHttpRequestFactory;
import org.springframework.http.client.JdkClientHttpRequestFactory;
import org.springframework.http.client.SimpleClientHttpRequestFactory;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.client.RestClient;
import org.springframework.web.client.RestTemplate;

/** A Spring Boot application on Spring MVC and Tomcat. */
@SpringBootApplication(proxyBeanMethods = false)
@RestController
public class ShopApplication {
    public static void main(String[] arguments) {
        SpringApplication application = new SpringApplication(ShopApplication.class);
        application.addListeners(new Ready());
        application.run(arguments);
    }

    private final RestClient own;

    public ShopApplication(RestClient.Builder builder) {
        own = builder.build();
    }

    @GetMapping("/product/{id}")
    public String product(@PathVariable("id") String id) {
        return id;
    }

    @GetMapping("/call/{way}")
    public String call(@PathVariable("way") String way, @RequestParam("url") String url) {
        switch (way) {
            case "rest-client":
                return get(own, url);
            case "rest-client-jdk":
                return get(client(new JdkClientHttpRequestFactory()), url);
            case "rest-client-url":
                return get(client(new SimpleClientHttpRequestFactory()), url);
            case "rest-template":
                return new RestTemplate().getForObject(URI.create(url), String.class);
            case "rest-template-jdk":
                return new RestTemplate(new JdkClientHttpRequestFactory()).getForObject(URI.create(url), String.class);
            default:
                throw new IllegalArgumentException(way);
        }
    }

    private static RestClient client(ClientHttpRequestFactory factory) {
        return RestClient.builder().requestFactory(factory).build();
    }

    private static String get(RestClient client, String url) {
        return client.get().uri(URI.create(url)).retrieve().body(String.class);
    }
}

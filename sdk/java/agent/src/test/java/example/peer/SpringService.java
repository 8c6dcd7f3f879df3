package example.peer;

import java.nio.file.Files;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.context.support.AnnotationConfigWebApplicationContext;
import org.springframework.web.servlet.DispatcherServlet;
import org.springframework.web.servlet.ModelAndView;
import org.springframework.web.servlet.config.annotation.EnableWebMvc;
import org.springframework.web.servlet.config.annotation.ResourceHandlerRegistry;
import org.springframework.web.servlet.config.annotation.WebMvcConfigurer;
import org.springframework.web.servlet.function.RouterFunction;
import org.springframework.web.servlet.function.RouterFunctions;
import org.springframework.web.servlet.function.ServerResponse;

/**
 * Spring MVC in embedded Tomcat. The application {@code /shop} has a servlet for every path and one for
 * {@code /api/}.
 */
final class SpringService {
    private SpringService() {}

    static int start() throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(Files.createTempDirectory("tomcat").toString());
        tomcat.setHostname("127.0.0.1");
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        Context context = tomcat.addContext("/shop", null);
        addServlet(context, "all", "/");
        addServlet(context, "api", "/api/*");
        tomcat.start();
        return tomcat.getConnector().getLocalPort();
    }

    private static void addServlet(Context context, String name, String mapping) {
        AnnotationConfigWebApplicationContext application = new AnnotationConfigWebApplicationContext();
        application.register(Application.class);
        Tomcat.addServlet(context, name, new DispatcherServlet(application)).setAsyncSupported(true);
        context.addServletMappingDecoded(mapping, name);
    }

    /** The application. */
    @Configuration(proxyBeanMethods = false)
    @EnableWebMvc
    public static class Application implements WebMvcConfigurer {
        @Bean
        public Products products() {
            return new Products();
        }

        @Bean
        public RouterFunction<ServerResponse> functions() {
            return RouterFunctions.route().path("/function/{tenant}", nested -> nested
                    .GET("/{id}", request -> ServerResponse.ok().body(request.pathVariable("id")))).build();
        }

        @Override
        public void addResourceHandlers(ResourceHandlerRegistry registry) {
            registry.addResourceHandler("/**").addResourceLocations("classpath:/nothing/");
        }
    }

    /** Its controller. */
    @RestController
    @RequestMapping("/product")
    public static class Products {
        @GetMapping
        public String all() {
            return "all";
        }

        @GetMapping("/{id}")
        public String one(@PathVariable("id") String id) {
            return id;
        }

        @GetMapping("/special")
        public String special() {
            return "special";
        }

        @GetMapping("/{id:[0-9]{2,4}}/number")
        public String number(@PathVariable("id") String id) {
            return id;
        }

        @GetMapping("/{id}/files/{*path}")
        public String file(@PathVariable Map<String, String> variables) {
            return variables.toString();
        }

        @GetMapping("/{id}/later")
        public Callable<String> later(@PathVariable("id") String id) {
            return () -> id;
        }

        @GetMapping("/{id}/forward")
        public ModelAndView forward(@PathVariable("id") String id) {
            return new ModelAndView("forward:/product/special");
        }

        @GetMapping("/{id}/refused")
        public String refused(@PathVariable("id") String id) {
            throw new UnsupportedOperationException(id);
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
}

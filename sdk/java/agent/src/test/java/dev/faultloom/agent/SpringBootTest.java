package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A Spring Boot application on Spring MVC and Tomcat, started from its executable jar. */
final class SpringBootTest {
    @TempDir
    static Path folder;

    private static Peer back;
    private static Peer boot;
    private static HttpDriver driver;

    @BeforeAll
    static void start() throws Exception {
        back = Peer.traced("back").start(Peer.HTTP);
        Path jar = BootJar.build(folder, List.of("example/boot", "example/boot/servlet"), "example.boot.servlet.ShopApplication",
                "(spring-webflux|reactor|netty|spring-boot-starter-(webflux|reactor-netty)|jetty|grpc|junit|byte-buddy).*");
        boot = Peer.traced("front").with("FAULTLOOM_PEERS", back.address(Peer.HTTP) + "=back").jar(jar)
                .start("--server.port=0", "--server.address=127.0.0.1");
        driver = new HttpDriver(boot.address("boot"));
    }

    @AfterAll
    static void stop() throws Exception {
        boot.close();
        back.close();
    }

    @Test
    void requestsAreNamedByTheirPatterns() throws Exception {
        HttpDriver.Reply reply = driver.send("GET", "/product/p", "");
        assertEquals("p", reply.text());
        assertEquals("GET /product/{id}", reply.segment.name);
        assertEquals("p", driver.plain("GET", "/product/p", "").text());
        assertEquals(404, driver.send("GET", "/nothing", "").segment.events.get(0).status);
    }

    @ParameterizedTest
    @ValueSource(strings = {"rest-client", "rest-client-jdk", "rest-client-url", "rest-template", "rest-template-jdk"})
    void callsOfSpringsClientsAreTracedAndFaulted(String way) throws Exception {
        String path = "/call/" + way + "?url=http://" + back.address(Peer.HTTP) + "/item";
        List<String> healthy = List.of("GET /item > back: replied 200 child back");
        HttpDriver.Reply reply = driver.send("GET", path, "");
        assertEquals("/item", reply.text());
        assertEquals(healthy, Calls.of(reply.segment));
        HttpDriver.Reply disturbed = driver.send("GET", path, "", Fault.of(FaultKind.UNAVAILABLE).callee("back"));
        assertEquals(500, disturbed.status);
        assertEquals(List.of("GET /item > back: failed 14 fault 0"), Calls.of(disturbed.segment));
        assertEquals(healthy, Calls.of(driver.send("GET", path, "").segment));
    }
}

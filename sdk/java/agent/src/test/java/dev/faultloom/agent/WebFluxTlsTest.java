package dev.faultloom.agent;

/** Spring WebFlux on Reactor Netty over TLS. */
final class WebFluxTlsTest extends HttpServers {
    WebFluxTlsTest() {
        super("webflux-tls");
    }
}

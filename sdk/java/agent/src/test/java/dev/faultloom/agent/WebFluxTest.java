package dev.faultloom.agent;

/** Spring WebFlux on Reactor Netty. */
final class WebFluxTest extends HttpServers {
    WebFluxTest() {
        super("webflux");
    }
}

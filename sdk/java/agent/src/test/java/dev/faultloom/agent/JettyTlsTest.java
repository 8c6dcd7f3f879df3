package dev.faultloom.agent;

/** Embedded Jetty over TLS. */
final class JettyTlsTest extends ServletContainers {
    JettyTlsTest() {
        super("jetty-tls");
    }
}

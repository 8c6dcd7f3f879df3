package dev.faultloom.agent;

/** Embedded Jetty. */
final class JettyTest extends ServletContainers {
    JettyTest() {
        super("jetty");
    }
}

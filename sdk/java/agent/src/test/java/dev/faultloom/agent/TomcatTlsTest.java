package dev.faultloom.agent;

/** Embedded Tomcat over TLS. */
final class TomcatTlsTest extends ServletContainers {
    TomcatTlsTest() {
        super("tomcat-tls");
    }
}

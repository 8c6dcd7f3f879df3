package dev.faultloom.agent;

/** The HTTP server of the JDK over TLS. */
final class JdkServerTlsTest extends HttpServers {
    JdkServerTlsTest() {
        super("https");
    }
}

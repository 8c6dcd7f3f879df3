package dev.faultloom.agent;

/** {@code com.sun.net.httpserver}. */
final class JdkServerTest extends HttpServers {
    JdkServerTest() {
        super("http");
    }
}

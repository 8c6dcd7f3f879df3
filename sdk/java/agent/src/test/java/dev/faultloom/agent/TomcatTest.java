package dev.faultloom.agent;

/** Embedded Tomcat. */
final class TomcatTest extends ServletContainers {
    TomcatTest() {
        super("tomcat");
    }
}

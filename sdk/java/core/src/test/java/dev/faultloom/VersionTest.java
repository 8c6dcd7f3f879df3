package dev.faultloom;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class VersionTest {
    @Test
    void versionMatchesTheBuild() {
        assertEquals(System.getProperty("project.version"), Version.SDK);
    }
}

package dev.faultloom.entry;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StatusFileTest {
    @Test
    void fileListsHookedAndRefusedLibraries(@TempDir Path folder) throws Exception {
        StatusFile status = StatusFile.fromEnvironment(Map.of("FAULTLOOM_STATUS", folder.toString()), "a/b ü", () -> "keys");
        long pid = ProcessHandle.current().pid();
        Path file = folder.resolve("a_b__." + pid + ".json");
        String head = "{\"service\":\"a/b ü\",\"pid\":" + pid + ",\"sdk\":\"java\",\"version\":\"0.1.0\",\"runtime\":\"Java "
                + System.getProperty("java.version") + "\",\"trust\":\"keys\",\"libraries\":[";
        assertEquals(head + "]}\n", read(file));
        status.hooked("grpc-java", "1.70.0");
        status.refused("okhttp", "2.7.5", "only \"3\" and newer");
        assertEquals(head + "{\"name\":\"grpc-java\",\"version\":\"1.70.0\",\"state\":\"hooked\",\"reason\":\"\"},"
                + "{\"name\":\"okhttp\",\"version\":\"2.7.5\",\"state\":\"refused\",\"reason\":\"only \\\"3\\\" and newer\"}]}\n", read(file));
        try (var files = Files.list(folder)) {
            assertEquals(1, files.count());
        }
    }

    private static String read(Path file) throws Exception {
        return new String(Files.readAllBytes(file), UTF_8);
    }

    @Test
    void unwritableFolderIsIgnored(@TempDir Path folder) {
        Path missing = folder.resolve("missing");
        StatusFile.fromEnvironment(Map.of("FAULTLOOM_STATUS", missing.toString()), "s", () -> "keys").hooked("a", "1");
        StatusFile.fromEnvironment(Map.of("FAULTLOOM_STATUS", "\0"), "s", () -> "keys").hooked("a", "1");
        assertFalse(Files.exists(missing));
        StatusFile none = StatusFile.fromEnvironment(Map.of(), "s", () -> "no trust settings");
        none.hooked("a", "1");
        assertTrue(none.json().contains("no trust settings"));
    }
}

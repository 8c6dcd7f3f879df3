package dev.faultloom.entry;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.faultloom.Version;
import dev.faultloom.wire.JsonText;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;

/**
 * The status file of this process in the folder {@code FAULTLOOM_STATUS}: the libraries that are hooked or refused.
 * Does nothing if no folder is set or it cannot be written. Safe for concurrent use.
 */
public final class StatusFile {
    private static final int MAX_LIBRARIES = 256;

    private final Path file; // null: none
    private final String service;
    private final Supplier<String> trust;
    private final long pid = ProcessHandle.current().pid();
    private final Map<String, String> libraries = new LinkedHashMap<>();

    /** @param trust returns {@code keys}, or the reason why the SDK is inactive */
    public StatusFile(Path folder, String service, Supplier<String> trust) {
        this.file = folder == null ? null : folder.resolve(fileName(service) + "." + pid + ".json");
        this.service = service;
        this.trust = trust;
    }

    /** The status of this process. Writes the file. */
    public static StatusFile fromEnvironment(Map<String, String> variables, String service, Supplier<String> trust) {
        Path folder = null;
        try {
            String name = variables.getOrDefault("FAULTLOOM_STATUS", "");
            folder = name.isEmpty() ? null : Paths.get(name);
        } catch (InvalidPathException e) {
            // treated like a folder that cannot be written
        }
        StatusFile status = new StatusFile(folder, service, trust);
        status.write();
        return status;
    }

    private static String fileName(String service) {
        StringBuilder out = new StringBuilder(service);
        for (int i = 0; i < out.length(); i++) {
            char c = out.charAt(i);
            boolean isSafe = c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-';
            if (!isSafe) {
                out.setCharAt(i, '_');
            }
        }
        return out.toString();
    }

    /** Records that a library is hooked. */
    public void hooked(String library, String version) {
        record(library, version, "hooked", "");
    }

    /** Records that a library is not hooked. */
    public void refused(String library, String version, String reason) {
        record(library, version, "refused", reason);
    }

    private synchronized void record(String library, String version, String state, String reason) {
        String key = library + ' ' + version;
        if (libraries.size() >= MAX_LIBRARIES && !libraries.containsKey(key)) {
            return;
        }
        StringBuilder out = new StringBuilder("{\"name\":");
        JsonText.appendQuoted(out, library);
        JsonText.appendQuoted(out.append(",\"version\":"), version);
        JsonText.appendQuoted(out.append(",\"state\":"), state);
        JsonText.appendQuoted(out.append(",\"reason\":"), reason);
        String entry = out.append('}').toString();
        if (!entry.equals(libraries.put(key, entry))) {
            write();
        }
    }

    /** The file's contents. */
    synchronized String json() {
        StringBuilder out = new StringBuilder("{\"service\":");
        JsonText.appendQuoted(out, service);
        out.append(",\"pid\":").append(pid);
        JsonText.appendQuoted(out.append(",\"sdk\":"), "java");
        JsonText.appendQuoted(out.append(",\"version\":"), Version.SDK);
        JsonText.appendQuoted(out.append(",\"runtime\":"), "Java " + System.getProperty("java.version"));
        JsonText.appendQuoted(out.append(",\"trust\":"), trust.get());
        return out.append(",\"libraries\":[").append(String.join(",", libraries.values())).append("]}\n").toString();
    }

    private synchronized void write() {
        if (file == null) {
            return;
        }
        Path fresh = file.resolveSibling(file.getFileName() + ".new");
        try {
            Files.write(fresh, json().getBytes(UTF_8));
            Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException | RuntimeException e) {
            // the application must not suffer from a folder that cannot be written
        }
    }
}

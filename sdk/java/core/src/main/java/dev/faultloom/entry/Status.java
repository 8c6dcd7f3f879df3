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
 * The file in the folder {@code FAULTLOOM_STATUS} that tells what this SDK hooked or refused. Without a folder, or with one
 * that cannot be written, nothing happens. Safe for concurrent use.
 */
public final class Status {
    private static final int MAX_LIBRARIES = 256;

    private final Path file; // null: none
    private final String service;
    private final Supplier<String> trust;
    private final long pid = ProcessHandle.current().pid();
    private final Map<String, String> libraries = new LinkedHashMap<>();

    /** @param trust {@code keys}, or why the SDK is deaf, at the time of asking */
    public Status(Path folder, String service, Supplier<String> trust) {
        this.file = folder == null ? null : folder.resolve(safe(service) + "." + pid + ".json");
        this.service = service;
        this.trust = trust;
    }

    /** The status of this process; the file is written at once. */
    public static Status of(Map<String, String> variables, String service, Supplier<String> trust) {
        Path folder = null;
        try {
            String name = variables.getOrDefault("FAULTLOOM_STATUS", "");
            folder = name.isEmpty() ? null : Paths.get(name);
        } catch (InvalidPathException e) {
            // as if it could not be written
        }
        Status status = new Status(folder, service, trust);
        status.write();
        return status;
    }

    private static String safe(String service) {
        StringBuilder out = new StringBuilder(service);
        for (int i = 0; i < out.length(); i++) {
            char c = out.charAt(i);
            boolean plain = c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-';
            if (!plain) {
                out.setCharAt(i, '_');
            }
        }
        return out.toString();
    }

    /** A library's hook is in place. */
    public void hooked(String library, String version) {
        tell(library, version, "hooked", "");
    }

    /** A library is left as it is. */
    public void refused(String library, String version, String reason) {
        tell(library, version, "refused", reason);
    }

    private synchronized void tell(String library, String version, String state, String reason) {
        String key = library + ' ' + version;
        if (libraries.size() >= MAX_LIBRARIES && !libraries.containsKey(key)) {
            return;
        }
        StringBuilder out = new StringBuilder("{\"name\":");
        JsonText.quote(out, library);
        JsonText.quote(out.append(",\"version\":"), version);
        JsonText.quote(out.append(",\"state\":"), state);
        JsonText.quote(out.append(",\"reason\":"), reason);
        String entry = out.append('}').toString();
        if (!entry.equals(libraries.put(key, entry))) {
            write();
        }
    }

    /** The file's text. */
    synchronized String json() {
        StringBuilder out = new StringBuilder("{\"service\":");
        JsonText.quote(out, service);
        out.append(",\"pid\":").append(pid);
        JsonText.quote(out.append(",\"sdk\":"), "java");
        JsonText.quote(out.append(",\"version\":"), Version.SDK);
        JsonText.quote(out.append(",\"runtime\":"), "Java " + System.getProperty("java.version"));
        JsonText.quote(out.append(",\"trust\":"), trust.get());
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
            // nobody is to suffer from a folder that cannot be written
        }
    }
}

package dev.faultloom.trust;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.util.Map;

/**
 * Where settings come from. Those of a file follow the file: that is how keys rotate and how a switch stops every fault at
 * once. Safe for concurrent use.
 */
public final class TrustSource {
    /** How often the file is looked at, and only when an envelope arrives or a fault is under way. */
    private static final long LOOK_EVERY_NANOS = 200_000_000;

    private static final long MAX_FILE_BYTES = 64 << 10;

    private final Path path; // null: fixed
    private volatile TrustSettings current;
    private volatile long next = System.nanoTime();
    private String reason = "no trust settings";
    private FileTime modified;
    private long size = -1;
    private boolean looked;

    private TrustSource(Path path) {
        this.path = path;
    }

    /** Settings that stay as they are; null: deaf. */
    public static TrustSource fixed(TrustSettings settings) {
        TrustSource source = new TrustSource(null);
        source.current = settings;
        return source;
    }

    /** Settings that follow a file. */
    public static TrustSource file(Path path) {
        return new TrustSource(path);
    }

    /** What {@code FAULTLOOM_TRUST_FILE} or else {@code FAULTLOOM_TRUST} describes; broken settings are reported on standard error. */
    public static TrustSource environment(Map<String, String> variables) {
        String file = variables.getOrDefault("FAULTLOOM_TRUST_FILE", "");
        String text = variables.getOrDefault("FAULTLOOM_TRUST", "");
        TrustSource source = new TrustSource(file.isEmpty() ? null : Paths.get(file));
        if (file.isEmpty() && !text.isEmpty()) {
            synchronized (source) {
                source.set(text);
            }
        }
        return source;
    }

    /** The settings as they are now, or null: deaf. Reads the file again if 200 ms have passed and it has changed. */
    public TrustSettings settings() {
        if (path != null && System.nanoTime() - next >= 0) {
            look();
        }
        return current;
    }

    /** {@code keys}, or why this process is deaf. */
    public synchronized String state() {
        return settings() != null ? "keys" : reason;
    }

    private synchronized void look() {
        if (System.nanoTime() - next < 0) {
            return;
        }
        try {
            BasicFileAttributes now = Files.readAttributes(path, BasicFileAttributes.class);
            if (!looked || now.size() != size || !now.lastModifiedTime().equals(modified)) {
                if (now.size() > MAX_FILE_BYTES) {
                    throw new IOException("larger than " + MAX_FILE_BYTES + " bytes");
                }
                size = now.size();
                modified = now.lastModifiedTime();
                set(new String(Files.readAllBytes(path), UTF_8));
            }
        } catch (IOException | RuntimeException e) {
            if (current != null || !looked) {
                System.err.println("faultloom: trust file: " + e);
            }
            reason = "trust file cannot be read";
            current = null;
            size = -1;
            modified = null;
        } finally {
            looked = true;
            next = System.nanoTime() + LOOK_EVERY_NANOS;
        }
    }

    private void set(String text) {
        TrustSettings settings = null;
        try {
            settings = TrustSettings.parse(text);
        } catch (TrustSettings.Invalid e) {
            reason = e.line > 0 ? "line " + e.line + " of the trust settings" : "trust settings without environment";
            System.err.println("faultloom: " + e.getMessage());
        } catch (IllegalStateException e) {
            reason = e.getMessage();
            System.err.println("faultloom: " + e.getMessage());
        }
        current = settings;
    }
}

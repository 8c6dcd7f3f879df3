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
 * Provides the trust settings: fixed, or read again when their file changes. A changed file rotates keys, or disables
 * faults immediately. Safe for concurrent use.
 */
public final class TrustSource {
    /** How often the file is checked at most, while envelopes arrive or a fault delays a call. */
    private static final long CHECK_INTERVAL_NANOS = 200_000_000;

    private static final long MAX_FILE_BYTES = 64 << 10;

    private final Path path; // null: fixed
    private volatile TrustSettings current;
    private volatile long nextCheck = System.nanoTime();
    private String reason = "no trust settings";
    private FileTime modified;
    private long size = -1;
    private boolean checked; // at least once

    private TrustSource(Path path) {
        this.path = path;
    }

    /** Fixed settings; null: this process is inactive. */
    public static TrustSource fixed(TrustSettings settings) {
        TrustSource source = new TrustSource(null);
        source.current = settings;
        return source;
    }

    /** Settings from a file, read again when it changes. */
    public static TrustSource fromFile(Path path) {
        return new TrustSource(path);
    }

    /**
     * Settings from {@code FAULTLOOM_TRUST_FILE} or else {@code FAULTLOOM_TRUST}; invalid ones are reported on standard
     * error.
     */
    public static TrustSource fromEnvironment(Map<String, String> variables) {
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

    /** The current settings, or null: this process is inactive. Checks the file for changes at most every 200 ms. */
    public TrustSettings settings() {
        if (path != null && System.nanoTime() - nextCheck >= 0) {
            reloadIfChanged();
        }
        return current;
    }

    /** {@code keys}, or the reason why this process is inactive. */
    public synchronized String state() {
        return settings() != null ? "keys" : reason;
    }

    private synchronized void reloadIfChanged() {
        if (System.nanoTime() - nextCheck < 0) {
            return;
        }
        try {
            BasicFileAttributes now = Files.readAttributes(path, BasicFileAttributes.class);
            if (!checked || now.size() != size || !now.lastModifiedTime().equals(modified)) {
                if (now.size() > MAX_FILE_BYTES) {
                    throw new IOException("larger than " + MAX_FILE_BYTES + " bytes");
                }
                size = now.size();
                modified = now.lastModifiedTime();
                set(new String(Files.readAllBytes(path), UTF_8));
            }
        } catch (IOException | RuntimeException e) {
            if (current != null || !checked) {
                System.err.println("faultloom: trust file: " + e);
            }
            reason = "trust file cannot be read";
            current = null;
            size = -1;
            modified = null;
        } finally {
            checked = true;
            nextCheck = System.nanoTime() + CHECK_INTERVAL_NANOS;
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

package dev.faultloom.agent;

import java.util.Arrays;
import java.util.function.Function;

/** A library we have hooks for. */
final class Library {
    /** As the status file and messages name it. */
    final String name;
    /** The folder of its hooks below {@code dev/faultloom/hooks}, or null: the boot class path has them. */
    final String hooks;
    /** The oldest version that is hooked, or null: any. */
    private final String oldest;
    private final Function<ClassLoader, String> version;

    Library(String name, String hooks, String oldest, Function<ClassLoader, String> version) {
        this.name = name;
        this.hooks = hooks;
        this.oldest = oldest;
        this.version = version;
    }

    /** The version in a class loader, or "" if it cannot be told. */
    String version(ClassLoader loader) {
        try {
            String found = version.apply(loader);
            return found == null ? "" : found;
        } catch (RuntimeException | LinkageError e) {
            return "";
        }
    }

    /** Why a version is refused, or null. One that cannot be told is not. */
    String refusal(String version) {
        if (oldest == null || version.isEmpty() || Arrays.compare(numbers(version), numbers(oldest)) >= 0) {
            return null;
        }
        return "version " + version + " is older than " + oldest;
    }

    private static int[] numbers(String version) {
        String[] parts = version.split("[^0-9]+");
        return Arrays.stream(parts).filter(part -> !part.isEmpty() && part.length() < 9).limit(3).mapToInt(Integer::parseInt).toArray();
    }
}

package dev.faultloom.agent;

import java.util.Arrays;
import java.util.List;
import java.util.function.Function;

/** A library that has hooks. */
final class Library {
    /** The name in the status file and in messages. */
    final String name;
    /** The folders of its hooks under {@code dev/faultloom/hooks}; none: they are on the boot class path. */
    final List<String> hooks;
    /** The oldest supported version, or null: any. */
    private final String oldest;
    private final Function<ClassLoader, String> version;

    Library(String name, List<String> hooks, String oldest, Function<ClassLoader, String> version) {
        this.name = name;
        this.hooks = hooks;
        this.oldest = oldest;
        this.version = version;
    }

    /** The version in a class loader, or "": unknown. */
    String version(ClassLoader loader) {
        try {
            String found = version.apply(loader);
            return found == null ? "" : found;
        } catch (RuntimeException | LinkageError e) {
            return "";
        }
    }

    /** The reason why a version is refused, or null: it is supported. An unknown version is supported. */
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

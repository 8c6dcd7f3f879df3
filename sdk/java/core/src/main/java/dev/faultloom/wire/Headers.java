package dev.faultloom.wire;

/** The headers of an HTTP message, as whoever has them can look one up. */
@FunctionalInterface
public interface Headers {
    /** The value of the header with that lower-case name, several of them joined with {@code ", "}, or null. */
    String get(String name);
}

package dev.faultloom.wire;

/** Looks up the headers of an HTTP message, or the metadata of a gRPC message. */
@FunctionalInterface
public interface Headers {
    /** The value of the header with this lower-case name, several lines joined with {@code ", "}; or null. */
    String get(String name);
}

package dev.faultloom;

/** The SDK's version. A test compares it with the build's. */
public final class Version {
    public static final String SDK = "0.1.0";

    private Version() {}
}

package dev.faultloom.wire;

/** The carriers that a caller accepts for a history: the bits of the hop part's accept byte. */
public final class Accept {
    /** Neither field nor tail. */
    public static final int NONE = 0;
    /** The appended protobuf field (gRPC). */
    public static final int FIELD = 1;
    /** The tail behind the body (HTTP). */
    public static final int TAIL = 2;

    private Accept() {}
}

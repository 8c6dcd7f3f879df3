package dev.faultloom.wire;

/**
 * The gRPC codes that the SDK uses. A call that fails without a reply is recorded with one, also an HTTP call.
 */
public final class GrpcCode {
    public static final int CANCELED = 1;
    public static final int UNKNOWN = 2;
    public static final int DEADLINE_EXCEEDED = 4;
    public static final int INTERNAL = 13;
    public static final int UNAVAILABLE = 14;
    /** The largest code of the protocol. */
    public static final int MAX = 16;

    private GrpcCode() {}
}

package dev.faultloom.hooks.faults;

/** How a call that was sent really ended. */
public final class CallResult {
    /** A reply arrived; false: the call ended without one. */
    final boolean isReply;
    final long status;
    final boolean hasHistory;

    private CallResult(boolean isReply, long status, boolean hasHistory) {
        this.isReply = isReply;
        this.status = status;
        this.hasHistory = hasHistory;
    }

    /** A reply with a gRPC code or an HTTP status. */
    public static CallResult reply(long status, boolean hasHistory) {
        return new CallResult(true, status, hasHistory);
    }

    /** A call that ended without a reply; {@code code} is a gRPC code. */
    public static CallResult failure(long code, boolean hasHistory) {
        return new CallResult(false, code, hasHistory);
    }
}

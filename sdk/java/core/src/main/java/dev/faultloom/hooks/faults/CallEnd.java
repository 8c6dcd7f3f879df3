package dev.faultloom.hooks.faults;

import dev.faultloom.scope.Scope;

/** How a call ends for its caller, and the event that records it. */
public final class CallEnd {
    public final Outcome outcome;
    /** The status that the caller gets: a gRPC code or, for an HTTP reply, its status. */
    public final long status;
    /** RECV_RESPONSE if true, else CALL_FAILED. */
    public final boolean isReply;
    /** The status of the event, unsigned. CALL_FAILED: a gRPC code. */
    public final long recordedStatus;
    /** The event is marked as a gap: the callee may have run and no history arrived. */
    public final boolean isGap;

    private CallEnd(Outcome outcome, long status, boolean isReply, long recordedStatus, boolean isGap) {
        this.outcome = outcome;
        this.status = status;
        this.isReply = isReply;
        this.recordedStatus = recordedStatus;
        this.isGap = isGap;
    }

    static CallEnd reply(Outcome outcome, long status, long recordedStatus, boolean isGap) {
        return new CallEnd(outcome, status, true, recordedStatus, isGap);
    }

    static CallEnd failure(Outcome outcome, long code, boolean isGap) {
        return new CallEnd(outcome, code, false, code, isGap);
    }

    /** Records the event. {@code history}: of the callee, or null. */
    public void record(Scope scope, int callNumber, byte[] history) {
        if (isReply) {
            scope.recordReply(scope.now(), callNumber, recordedStatus, history, isGap);
        } else {
            scope.recordFailure(scope.now(), callNumber, recordedStatus, history, isGap);
        }
    }
}

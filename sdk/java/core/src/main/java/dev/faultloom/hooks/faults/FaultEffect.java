package dev.faultloom.hooks.faults;

/** What a fault does to a call before its reply: see {@link Faults#faultEffect}. */
public final class FaultEffect {
    static final FaultEffect NONE = new FaultEffect(0, null, false, Outcome.REPLY);

    /** How long the call waits first, in ms, 0 to {@link Faults#MAX_WAIT_MS}. */
    public final int waitMs;
    /** Whether the request is sent after the wait. */
    public final boolean sends;
    /** How the call ends without being sent; null if it is sent. */
    public final CallEnd end;
    /**
     * The outcome for the caller. For a request that is sent: the effect on a reply that arrives, which is REPLY
     * (none), LOST, EMPTY or CORRUPT.
     */
    public final Outcome outcome;
    private final boolean sendsIfDisabled;

    private FaultEffect(int waitMs, CallEnd end, boolean sendsIfDisabled, Outcome outcome) {
        this.waitMs = waitMs;
        this.sends = end == null;
        this.sendsIfDisabled = sendsIfDisabled;
        this.end = end;
        this.outcome = outcome;
    }

    static FaultEffect onReply(Outcome outcome) {
        return new FaultEffect(0, null, false, outcome);
    }

    static FaultEffect unsent(CallEnd end) {
        return new FaultEffect(0, end, false, end.outcome);
    }

    /** {@code end}: how the call ends after the wait; null: it is sent. */
    static FaultEffect delayed(int waitMs, CallEnd end, boolean sendsIfDisabled) {
        return new FaultEffect(waitMs, end, sendsIfDisabled, end == null ? Outcome.REPLY : end.outcome);
    }

    /** Whether the call waits before anything else. */
    public boolean waits() {
        return waitMs > 0;
    }

    /**
     * Whether the request is sent after a wait.
     *
     * @param elapsed false: the wait ended early because faults were disabled, so a delay sends even if it would have
     *     exceeded the caller's timeout
     */
    public boolean sendsAfterWait(boolean elapsed) {
        return elapsed ? sends : sendsIfDisabled;
    }

    /** Whether a reply that arrives is lost on its way to the caller. */
    public boolean losesReply() {
        return outcome == Outcome.LOST;
    }

    /** Whether the body or message of a reply is replaced, for which all of it is needed. */
    public boolean changesBody() {
        return outcome == Outcome.EMPTY || outcome == Outcome.CORRUPT;
    }
}

package dev.faultloom.wire;

/** The part of an envelope that is encoded for every call. It is not signed. */
public final class HopPart {
    /** The call's id. */
    public final long call;
    /** Bits of {@link Accept}. */
    public final int accept;
    /** The largest message that the caller can receive, in bytes, unsigned; 0: unknown, so replies carry no field. */
    public final long receiveLimit;
    /** Counters in the order of the format; empty without a plan. Read-only. */
    public final long[] evidence;

    public HopPart(long call, int accept, long receiveLimit, long[] evidence) {
        this.call = call;
        this.accept = accept;
        this.receiveLimit = receiveLimit;
        this.evidence = evidence;
    }
}

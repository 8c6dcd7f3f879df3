package dev.faultloom.wire;

/** The part of an envelope that is written anew for every call. It is not signed. */
public final class Hop {
    /** The call's id. */
    public final long call;
    /** Bits of {@link Accept}. */
    public final int accept;
    /** Bytes that the caller can receive in one message, unsigned; 0: unknown, then no reply field. */
    public final long receiveLimit;
    /** Counters in the order of the format; empty without a plan. Not to be changed. */
    public final long[] evidence;

    public Hop(long call, int accept, long receiveLimit, long[] evidence) {
        this.call = call;
        this.accept = accept;
        this.receiveLimit = receiveLimit;
        this.evidence = evidence;
    }
}

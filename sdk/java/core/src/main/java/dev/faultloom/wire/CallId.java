package dev.faultloom.wire;

/** Ids of calls. They are derived, so they need no room in a history, are unique per call and the same in every repetition. */
public final class CallId {
    private CallId() {}

    /** The id of the {@code number}-th call (from 1) sent by the scope of the call {@code parent}. Never 0. */
    public static long of(long parent, long number) {
        long z = parent + number * 0x9E3779B97F4A7C15L;
        z = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9L;
        z = (z ^ z >>> 27) * 0x94D049BB133111EBL;
        z ^= z >>> 31;
        return z == 0 ? 1 : z;
    }
}

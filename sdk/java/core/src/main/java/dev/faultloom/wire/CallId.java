package dev.faultloom.wire;

/**
 * Ids of calls. They are derived: a history need not contain them, and they are unique per call and the same in every
 * run.
 */
public final class CallId {
    private CallId() {}

    /** The id of the {@code number}-th call (from 1) of the scope that answers the call {@code parent}. Never 0. */
    public static long derive(long parent, long number) {
        long z = parent + number * 0x9E3779B97F4A7C15L;
        z = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9L;
        z = (z ^ z >>> 27) * 0x94D049BB133111EBL;
        z ^= z >>> 31;
        return z == 0 ? 1 : z;
    }
}

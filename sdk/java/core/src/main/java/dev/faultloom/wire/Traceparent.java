package dev.faultloom.wire;

/** The W3C header {@code traceparent}: version, trace id, parent id, flags. */
public final class Traceparent {
    public final long traceHigh;
    public final long traceLow;
    /** Id of the span that sent the request. */
    public final long parent;

    private Traceparent(long traceHigh, long traceLow, long parent) {
        this.traceHigh = traceHigh;
        this.traceLow = traceLow;
        this.parent = parent;
    }

    /**
     * Parses the header's value. Null if it is not {@code 00-32-16-2} lower-case hex digits (or a later version with
     * the same start), or an id is zero.
     */
    public static Traceparent parse(String s) {
        if (s == null || s.length() < 55 || s.charAt(2) != '-' || s.charAt(35) != '-' || s.charAt(52) != '-'
                || !isHex(s, 0, 2) || !isHex(s, 3, 35) || !isHex(s, 36, 52) || !isHex(s, 53, 55) || s.startsWith("ff")) {
            return null;
        }
        if (s.length() > 55 && (s.startsWith("00") || s.charAt(55) != '-')) {
            return null;
        }
        Traceparent t = new Traceparent(value(s, 3), value(s, 19), value(s, 36));
        return (t.traceHigh | t.traceLow) == 0 || t.parent == 0 ? null : t;
    }

    /** Formats the header's value. */
    public static String format(long traceHigh, long traceLow, long parent) {
        return "00-" + Text.hex(traceHigh, traceLow) + "-" + Text.hex(parent) + "-01";
    }

    private static boolean isHex(String s, int from, int to) {
        for (int i = from; i < to; i++) {
            char c = s.charAt(i);
            if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) {
                return false;
            }
        }
        return true;
    }

    private static long value(String s, int from) {
        long v = 0;
        for (int i = from; i < from + 16; i++) {
            v = v << 4 | Text.digit(s.charAt(i));
        }
        return v;
    }
}

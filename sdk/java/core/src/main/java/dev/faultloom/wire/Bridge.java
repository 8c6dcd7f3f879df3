package dev.faultloom.wire;

/** Carries an envelope over hops that know OpenTelemetry only, in {@code traceparent} and {@code baggage}. */
public final class Bridge {
    public static final String TRACEPARENT = "traceparent";
    public static final String BAGGAGE = "baggage";
    private static final String KEY = "faultloom";
    private static final int MAX_BAGGAGE_BYTES = 8192;

    private Bridge() {}

    /** What {@code traceparent} becomes: what the request has (null: nothing), else one of ours. */
    public static String traceparent(String present, Envelope envelope, long call) {
        return traceparent(present, envelope.signed.traceHigh, envelope.signed.traceLow, call);
    }

    /** {@link #traceparent(String, Envelope, long)} for a trace id by itself. */
    public static String traceparent(String present, long traceHigh, long traceLow, long call) {
        return present != null && !present.isEmpty() ? present : Traceparent.format(traceHigh, traceLow, call);
    }

    /**
     * What {@code baggage} becomes, of what the request has (null: nothing) and the envelope's bytes: its members without
     * blank ones and ours, then ours unless it has no room. Null if nothing is left.
     */
    public static String baggage(String present, byte[] envelope) {
        StringBuilder out = new StringBuilder();
        for (int at = 0; present != null && at <= present.length(); ) {
            int end = memberEnd(present, at);
            String member = trim(present, at, end);
            if (!member.isEmpty() && !isOurs(member)) {
                out.append(out.length() == 0 ? "" : ",").append(member);
            }
            at = end + 1;
        }
        String ours = KEY + '=' + Text.base64(envelope);
        int others = Text.utf8Length(out.toString());
        if (others + (others == 0 ? 0 : 1) + ours.length() <= MAX_BAGGAGE_BYTES) {
            out.append(others == 0 ? "" : ",").append(ours);
        }
        return out.length() == 0 ? null : out.toString();
    }

    /** The text of the envelope in a request's {@code baggage} (null: none), or null. */
    public static String envelope(String baggage) {
        if (baggage == null || !baggage.contains(KEY)) {
            return null; // the usual case, without looking at members
        }
        for (int at = 0; at < baggage.length(); ) {
            int end = memberEnd(baggage, at);
            String member = baggage.substring(at, end);
            if (isOurs(member)) {
                int semicolon = member.indexOf(';');
                return trim(member, member.indexOf('=') + 1, semicolon < 0 ? member.length() : semicolon);
            }
            at = end + 1;
        }
        return null;
    }

    /** The key stands before the first {@code =}, which must come before any {@code ;}. */
    private static boolean isOurs(String member) {
        int equals = member.indexOf('=');
        // a key that holds a semicolon is not ours either
        return equals >= 0 && trim(member, 0, equals).equals(KEY);
    }

    private static int memberEnd(String s, int at) {
        int end = s.indexOf(',', at);
        return end < 0 ? s.length() : end;
    }

    private static String trim(String s, int from, int to) {
        while (from < to && isBlank(s.charAt(from))) {
            from++;
        }
        while (from < to && isBlank(s.charAt(to - 1))) {
            to--;
        }
        return s.substring(from, to);
    }

    private static boolean isBlank(char c) {
        return c == ' ' || c == '\t';
    }
}

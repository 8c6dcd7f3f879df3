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

    /** What {@code baggage} becomes, of what the request has (null: nothing) and the envelope's bytes. Null if it is empty. */
    public static String baggage(String present, byte[] envelope) {
        StringBuilder out = new StringBuilder();
        if (present != null && !trim(present, 0, present.length()).isEmpty()) {
            boolean first = true;
            for (int at = 0; at <= present.length(); ) {
                int end = memberEnd(present, at);
                if (!key(present, at, end).equals(KEY)) {
                    out.append(first ? "" : ",").append(present, at, end);
                    first = false;
                }
                at = end + 1;
            }
        }
        String rest = out.toString();
        if (!rest.isEmpty()) {
            out.append(',');
        }
        out.append(KEY).append('=').append(Text.base64(envelope));
        if (out.length() > MAX_BAGGAGE_BYTES || Text.utf8Length(out.toString()) > MAX_BAGGAGE_BYTES) {
            return rest.isEmpty() ? null : rest;
        }
        return out.toString();
    }

    /** The text of the envelope in a request's {@code baggage} (null: none), or null. */
    public static String envelope(String baggage) {
        if (baggage != null) {
            for (int at = 0; at < baggage.length(); ) {
                int end = memberEnd(baggage, at);
                int value = keyEnd(baggage, at, end);
                if (value < end && baggage.charAt(value) == '=' && key(baggage, at, end).equals(KEY)) {
                    int semicolon = baggage.indexOf(';', value);
                    return trim(baggage, value + 1, semicolon >= 0 && semicolon < end ? semicolon : end);
                }
                at = end + 1;
            }
        }
        return null;
    }

    private static int memberEnd(String s, int at) {
        int end = s.indexOf(',', at);
        return end < 0 ? s.length() : end;
    }

    private static int keyEnd(String s, int at, int end) {
        while (at < end && s.charAt(at) != '=' && s.charAt(at) != ';') {
            at++;
        }
        return at;
    }

    private static String key(String s, int from, int to) {
        return trim(s, from, keyEnd(s, from, to));
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

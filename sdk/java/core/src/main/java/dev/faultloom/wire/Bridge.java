package dev.faultloom.wire;

/** Carries an envelope in {@code traceparent} and {@code baggage}, across services that only run OpenTelemetry. */
public final class Bridge {
    public static final String TRACEPARENT = "traceparent";
    public static final String BAGGAGE = "baggage";
    private static final String KEY = "faultloom";
    private static final int MAX_BAGGAGE_BYTES = 8192;

    private Bridge() {}

    /** The new value of {@code traceparent}: the request's own value (null: none), else one for this call. */
    public static String traceparent(String present, Envelope envelope, long call) {
        return traceparent(present, envelope.signed.traceHigh, envelope.signed.traceLow, call);
    }

    /** {@link #traceparent(String, Envelope, long)} with a separate trace id. */
    public static String traceparent(String present, long traceHigh, long traceLow, long call) {
        return present != null && !present.isEmpty() ? present : Traceparent.format(traceHigh, traceLow, call);
    }

    /**
     * The new value of {@code baggage}, or null: no members. It keeps the members of {@code present} (null: none)
     * except blank ones and an earlier envelope, then adds the envelope if it fits.
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
        String ours = KEY + '=' + Text.encodeBase64(envelope);
        int others = Text.utf8Length(out.toString());
        if (others + (others == 0 ? 0 : 1) + ours.length() <= MAX_BAGGAGE_BYTES) {
            out.append(others == 0 ? "" : ",").append(ours);
        }
        return out.length() == 0 ? null : out.toString();
    }

    /** The envelope's text in the value of {@code baggage} (null: no header), or null. */
    public static String envelope(String baggage) {
        if (baggage == null || !baggage.contains(KEY)) {
            return null; // the common case: no need to parse the members
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

    /** Whether the member's key, the text before the first {@code =}, is ours. */
    private static boolean isOurs(String member) {
        int equals = member.indexOf('=');
        // a key with a semicolon never equals ours
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

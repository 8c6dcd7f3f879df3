package dev.faultloom.wire;

/**
 * The bridge: an envelope in {@code traceparent} and {@code baggage}, across services that only run OpenTelemetry. An
 * object has the values of both headers of an outgoing request.
 */
public final class Bridge {
    public static final String TRACEPARENT = "traceparent";
    public static final String BAGGAGE = "baggage";
    private static final String KEY = "faultloom";
    private static final int MAX_BAGGAGE_BYTES = 8192;

    public final String traceparent;
    /** Null: no header. */
    public final String baggage;

    private Bridge(String traceparent, String baggage) {
        this.traceparent = traceparent;
        this.baggage = baggage;
    }

    /**
     * The headers of a request that carries an envelope. The request's own values, or null, are kept: {@code
     * traceparent} as it is, else there is one for this call; {@code baggage} except blank members and an earlier
     * envelope, then the envelope if it fits.
     */
    public static Bridge inject(
            String traceparent, String baggage, byte[] envelope, long traceHigh, long traceLow, long call) {
        boolean hasOwn = traceparent != null && !traceparent.isEmpty();
        return new Bridge(
                hasOwn ? traceparent : Traceparent.format(traceHigh, traceLow, call), addToBaggage(baggage, envelope));
    }

    private static String addToBaggage(String present, byte[] envelope) {
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

    /**
     * The envelope of a request that has none in its own carrier. Both headers may be null. Null if there is none, or
     * {@code traceparent} is not valid.
     */
    public static BridgedEnvelope extract(String traceparent, String baggage) {
        String envelope = findEnvelope(baggage);
        Traceparent parent = envelope == null ? null : Traceparent.parse(traceparent);
        return parent == null ? null : new BridgedEnvelope(envelope, parent.parent);
    }

    private static String findEnvelope(String baggage) {
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

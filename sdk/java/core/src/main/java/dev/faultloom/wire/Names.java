package dev.faultloom.wire;

/** Names of HTTP calls. */
public final class Names {
    /** The longest name of a call or a peer in a history, in bytes. */
    public static final int MAX_NAME_BYTES = 200;
    /** The longest name of a service, in bytes. */
    public static final int MAX_SERVICE_BYTES = 64;

    private Names() {}

    /** The name that selectors are matched against: {@code METHOD /path} without query and fragment. */
    public static String rawHttpName(String method, String target) {
        int end = 0;
        while (end < target.length() && target.charAt(end) != '?' && target.charAt(end) != '#') {
            end++;
        }
        return end == 0 ? method + " /" : method + " " + target.substring(0, end);
    }

    /** The name that is recorded: variable parts of the path are replaced by <code>{id}</code>; at most 200 bytes. */
    public static String normalizeHttpName(String raw) {
        StringBuilder out = null;
        int at = raw.indexOf('/');
        while (at >= 0 && at < raw.length()) {
            int end = raw.indexOf('/', at + 1);
            if (end < 0) {
                end = raw.length();
            }
            if (isVariable(raw, at + 1, end)) {
                if (out == null) {
                    out = new StringBuilder(raw.length() + 4).append(raw, 0, at);
                }
                out.append("/{id}");
            } else if (out != null) {
                out.append(raw, at, end);
            }
            at = end;
        }
        return Text.truncate(out == null ? raw : out.toString(), MAX_NAME_BYTES);
    }

    /**
     * All digits, a UUID, at least 8 hex digits including a decimal digit, or at least 20 bytes including a decimal
     * digit.
     */
    private static boolean isVariable(String s, int from, int to) {
        int length = to - from;
        int digits = 0;
        int letters = 0;
        boolean ascii = true;
        for (int i = from; i < to; i++) {
            char c = s.charAt(i);
            if (c >= '0' && c <= '9') {
                digits++;
            } else if (c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
                letters++;
            } else if (c >= 0x80) {
                ascii = false;
            }
        }
        int hex = digits + letters;
        if (digits > 0) {
            int bytes = ascii || length >= 20 ? length : Text.utf8Length(s.substring(from, to));
            if (digits == length || bytes >= 20 || (length >= 8 && hex == length)) {
                return true;
            }
        }
        return length == 36 && hex == 32 && s.charAt(from + 8) == '-' && s.charAt(from + 13) == '-'
                && s.charAt(from + 18) == '-' && s.charAt(from + 23) == '-';
    }
}

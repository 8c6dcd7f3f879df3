package dev.faultloom.wire;

/** JSON strings, for the JSON that the SDK writes. */
public final class JsonText {
    private JsonText() {}

    /** Appends the text as a JSON string. */
    public static void appendQuoted(StringBuilder out, String s) {
        out.append('"');
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append("\\u00").append(c < 16 ? '0' : '1').append(Character.forDigit(c & 15, 16));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}

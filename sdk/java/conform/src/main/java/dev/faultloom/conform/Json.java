package dev.faultloom.conform;

import dev.faultloom.wire.JsonText;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * JSON as the vectors need it: objects as sorted maps, arrays as lists, integers as {@link BigInteger}, because the
 * format has unsigned numbers of 64 bits. Only for trusted input.
 */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.blanks();
        if (json.at != text.length()) {
            throw json.wrong("more after the end");
        }
        return value;
    }

    private IllegalArgumentException wrong(String what) {
        return new IllegalArgumentException("JSON, character " + at + ": " + what);
    }

    private void blanks() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private boolean skip(char c) {
        blanks();
        if (at < text.length() && text.charAt(at) == c) {
            at++;
            return true;
        }
        return false;
    }

    private void expect(char c) {
        if (!skip(c)) {
            throw wrong("no " + c);
        }
    }

    private Object value() {
        if (skip('{')) {
            Map<String, Object> object = new TreeMap<>();
            if (!skip('}')) {
                do {
                    expect('"');
                    String key = string();
                    expect(':');
                    object.put(key, value());
                } while (skip(','));
                expect('}');
            }
            return object;
        }
        if (skip('[')) {
            List<Object> array = new ArrayList<>();
            if (!skip(']')) {
                do {
                    array.add(value());
                } while (skip(','));
                expect(']');
            }
            return array;
        }
        if (skip('"')) {
            return string();
        }
        int from = at;
        while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(from, at);
        switch (word) {
            case "null":
                return null;
            case "true":
                return true;
            case "false":
                return false;
            default:
                return new BigInteger(word);
        }
    }

    private String string() {
        StringBuilder out = new StringBuilder();
        while (true) {
            char c = text.charAt(at++);
            if (c == '"') {
                return out.toString();
            }
            if (c != '\\') {
                out.append(c);
                continue;
            }
            char escape = text.charAt(at++);
            int plain = "\"\\/bfnrt".indexOf(escape);
            if (plain >= 0) {
                out.append("\"\\/\b\f\n\r\t".charAt(plain));
            } else if (escape == 'u') {
                out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                at += 4;
            } else {
                throw wrong("\\" + escape);
            }
        }
    }

    /** Writes JSON with sorted keys and without white space. */
    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(out, value);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value) {
        String separator = "";
        if (value instanceof Map) {
            out.append('{');
            for (Map.Entry<?, ?> e : new TreeMap<>((Map<?, ?>) value).entrySet()) {
                out.append(separator);
                JsonText.appendQuoted(out, (String) e.getKey());
                write(out.append(':'), e.getValue());
                separator = ",";
            }
            out.append('}');
        } else if (value instanceof List) {
            out.append('[');
            for (Object element : (List<?>) value) {
                write(out.append(separator), element);
                separator = ",";
            }
            out.append(']');
        } else if (value instanceof String) {
            JsonText.appendQuoted(out, (String) value);
        } else {
            out.append(value); // null, Boolean, whole numbers
        }
    }
}

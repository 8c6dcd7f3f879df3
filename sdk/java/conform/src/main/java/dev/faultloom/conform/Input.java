package dev.faultloom.conform;

import dev.faultloom.wire.Text;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A JSON object of a vector's input, with typed access to its members. */
final class Input {
    private final Map<?, ?> object;

    Input(Object object) {
        this.object = (Map<?, ?>) object;
    }

    boolean has(String key) {
        return object.get(key) != null;
    }

    String text(String key) {
        return (String) object.get(key);
    }

    /** An unsigned 64-bit number; 0 if it is absent or null. */
    long number(String key) {
        return has(key) ? ((BigInteger) object.get(key)).longValue() : 0;
    }

    boolean flag(String key) {
        return Boolean.TRUE.equals(object.get(key));
    }

    /** An id in hex. */
    long id(String key) {
        return Long.parseUnsignedLong(text(key), 16);
    }

    /** Hex, or null. */
    byte[] bytes(String key) {
        return has(key) ? Text.decodeHex(text(key)) : null;
    }

    Input in(String key) {
        return new Input(object.get(key));
    }

    List<Input> list(String key) {
        List<Input> out = new ArrayList<>();
        for (Object element : (List<?>) object.get(key)) {
            out.add(new Input(element));
        }
        return out;
    }

    List<String> texts(String key) {
        List<String> out = new ArrayList<>();
        for (Object element : (List<?>) object.get(key)) {
            out.add((String) element);
        }
        return out;
    }

    /** A list of pairs of a text and how often it is repeated, joined. */
    String repeated(String key) {
        StringBuilder out = new StringBuilder();
        for (Object element : (List<?>) object.get(key)) {
            List<?> part = (List<?>) element;
            out.append(((String) part.get(0)).repeat(((BigInteger) part.get(1)).intValue()));
        }
        return out.toString();
    }

    List<Long> numbers(String key) {
        List<Long> out = new ArrayList<>();
        for (Object element : (List<?>) object.get(key)) {
            out.add(((BigInteger) element).longValue());
        }
        return out;
    }

    /** An object whose members are strings. */
    Map<String, String> table(String key) {
        Map<String, String> out = new LinkedHashMap<>();
        if (has(key)) {
            for (Map.Entry<?, ?> e : ((Map<?, ?>) object.get(key)).entrySet()) {
                out.put((String) e.getKey(), (String) e.getValue());
            }
        }
        return out;
    }
}

package dev.faultloom.wire;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.Arrays;

/** The text encodings of the format: UTF-8 with lengths in bytes, hex, and base64url with one text per value. */
public final class Text {
    private static final char[] HEX = "0123456789abcdef".toCharArray();
    private static final byte[] BASE64 =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".getBytes(ISO_8859_1);
    private static final byte[] BASE64_VALUE = new byte[128];

    static {
        Arrays.fill(BASE64_VALUE, (byte) -1);
        for (int i = 0; i < BASE64.length; i++) {
            BASE64_VALUE[BASE64[i]] = (byte) i;
        }
    }

    private Text() {}

    /** The length in UTF-8. A lone surrogate counts as one byte, because it is encoded as {@code ?}. */
    public static int utf8Length(String s) {
        int n = s.length();
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            if (c >= 0x80) {
                if (c < 0x800) {
                    n++;
                } else if (!Character.isSurrogate(c)) {
                    n += 2;
                } else if (Character.isHighSurrogate(c) && i + 1 < s.length() && Character.isLowSurrogate(s.charAt(i + 1))) {
                    n += 2; // four bytes for two chars
                    i++;
                }
            }
        }
        return n;
    }

    /** Truncates text to at most {@code max} bytes of UTF-8, at a character boundary. */
    public static String truncate(String s, int max) {
        if (s.length() * 3 <= max || utf8Length(s) <= max) {
            return s;
        }
        byte[] bytes = s.getBytes(UTF_8);
        int end = max;
        while (end > 0 && (bytes[end] & 0xC0) == 0x80) {
            end--;
        }
        return new String(bytes, 0, end, UTF_8);
    }

    /** Whether these bytes are ASCII, where each byte is one char. */
    static boolean isAscii(byte[] b, int from, int to) {
        for (int i = from; i < to; i++) {
            if (b[i] < 0) {
                return false;
            }
        }
        return true;
    }

    /** Whether these bytes are valid UTF-8: shortest forms only, no surrogates, nothing above U+10FFFF. */
    public static boolean isUtf8(byte[] b, int from, int to) {
        int i = from;
        while (i < to) {
            int c = b[i++];
            if (c >= 0) {
                continue;
            }
            c &= 0xFF;
            int more = c < 0xC2 ? -1 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : c < 0xF5 ? 3 : -1;
            if (more < 0 || to - i < more) {
                return false;
            }
            int second = b[i] & 0xFF;
            int low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
            int high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
            if (second < low || second > high) {
                return false;
            }
            for (int j = 1; j < more; j++) {
                if ((b[i + j] & 0xC0) != 0x80) {
                    return false;
                }
            }
            i += more;
        }
        return true;
    }

    /** A 64-bit number as 16 hex digits. */
    public static String hex(long v) {
        char[] out = new char[16];
        hex(v, out, 0);
        return new String(out);
    }

    /** A 128-bit number as 32 hex digits. */
    public static String hex(long high, long low) {
        char[] out = new char[32];
        hex(high, out, 0);
        hex(low, out, 16);
        return new String(out);
    }

    private static void hex(long v, char[] out, int at) {
        for (int i = 15; i >= 0; i--) {
            out[at + i] = HEX[(int) v & 15];
            v >>>= 4;
        }
    }

    /** The bytes as lower-case hex digits. */
    public static String hex(byte[] b) {
        char[] out = new char[2 * b.length];
        for (int i = 0; i < b.length; i++) {
            out[2 * i] = HEX[(b[i] >> 4) & 15];
            out[2 * i + 1] = HEX[b[i] & 15];
        }
        return new String(out);
    }

    /** Decodes hex digits of either case; null if these are not an even number of hex digits. */
    public static byte[] decodeHex(String s) {
        if (s.length() % 2 != 0) {
            return null;
        }
        byte[] out = new byte[s.length() / 2];
        for (int i = 0; i < out.length; i++) {
            int high = digit(s.charAt(2 * i));
            int low = digit(s.charAt(2 * i + 1));
            if (high < 0 || low < 0) {
                return null;
            }
            out[i] = (byte) (high << 4 | low);
        }
        return out;
    }

    /** The value of an ASCII hex digit, or -1. */
    static int digit(char c) {
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    }

    /** base64url without padding. */
    public static String encodeBase64(byte[] b) {
        byte[] out = new byte[(b.length * 4 + 2) / 3];
        int at = 0;
        int i = 0;
        for (; i + 2 < b.length; i += 3) {
            int v = (b[i] & 0xFF) << 16 | (b[i + 1] & 0xFF) << 8 | (b[i + 2] & 0xFF);
            out[at++] = BASE64[v >> 18];
            out[at++] = BASE64[v >> 12 & 63];
            out[at++] = BASE64[v >> 6 & 63];
            out[at++] = BASE64[v & 63];
        }
        if (i < b.length) {
            boolean two = i + 1 < b.length;
            int v = (b[i] & 0xFF) << 16 | (two ? (b[i + 1] & 0xFF) << 8 : 0);
            out[at++] = BASE64[v >> 18];
            out[at++] = BASE64[v >> 12 & 63];
            if (two) {
                out[at] = BASE64[v >> 6 & 63];
            }
        }
        return new String(out, ISO_8859_1);
    }

    /**
     * Decodes base64url without padding. Null for other characters, an impossible length, or unused bits that are set
     * in the last character: each value has exactly one text.
     */
    public static byte[] decodeBase64(String s) {
        int n = s.length();
        int rest = n % 4;
        if (rest == 1) {
            return null;
        }
        byte[] out = new byte[n / 4 * 3 + (rest == 0 ? 0 : rest - 1)];
        int at = 0;
        int bits = 0;
        int bitCount = 0;
        for (int i = 0; i < n; i++) {
            char c = s.charAt(i);
            int v = c < 128 ? BASE64_VALUE[c] : -1;
            if (v < 0) {
                return null;
            }
            bits = bits << 6 | v;
            bitCount += 6;
            if (bitCount >= 8) {
                bitCount -= 8;
                out[at++] = (byte) (bits >> bitCount);
                bits &= (1 << bitCount) - 1;
            }
        }
        return bits == 0 ? out : null;
    }
}

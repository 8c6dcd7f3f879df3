package dev.faultloom.wire;

import java.util.Locale;

/**
 * The carriers of a history in a reply. The appended field also carries the envelope in a request if the callee accepts
 * it.
 *
 * <pre>
 * appended field   tag (5 bytes)  varint length  history  u32 BE: length of the whole field, tag included  "flm" 0x01
 * HTTP tail        history  u32 BE: length of the history  "flm" 0x01
 * </pre>
 */
public final class Carrier {
    /** Number of the appended protobuf field. */
    public static final int FIELD_NUMBER = 333_000_333;
    /** Length of the footer that follows a history in a field or tail: length and magic. */
    public static final int FOOTER_BYTES = 8;
    /** The longest serialized request to which a field with an envelope is appended. */
    public static final int MAX_REQUEST_BYTES = 64 << 10;
    /** The smallest receive limit of a server that accepts envelopes in a field. */
    public static final int MIN_RECEIVE_LIMIT = 1 << 20;
    /** The longest history in an HTTP header, before base64. */
    public static final int MAX_HEADER_BYTES = 768;
    /** The longest history in a gRPC trailer, before base64. */
    public static final int MAX_TRAILER_BYTES = 3072;
    /** How much of an HTTP reply may be buffered until it is complete. */
    public static final int MAX_BUFFERED_BYTES = 32 << 10;

    private static final byte[] TAG = {(byte) 0xEA, (byte) 0xE8, (byte) 0xA5, (byte) 0xF6, 0x09};
    private static final int MAGIC = 0x666C6D01; // "flm" 0x01

    /** The carrier of the history in an HTTP reply. */
    public enum Choice { HEADER, TAIL, TRUNCATED_HEADER }

    /** A message and the history at its end: positions in the array that was searched. */
    public static final class Cut {
        /** The end of the message or body. */
        public final int end;
        public final int historyFrom;
        public final int historyTo;

        Cut(int end, int historyFrom, int historyTo) {
            this.end = end;
            this.historyFrom = historyFrom;
            this.historyTo = historyTo;
        }
    }

    private Carrier() {}

    /** The length of a field with a history, or a piece, of {@code history} bytes. */
    public static int fieldLength(int history) {
        return TAG.length + Bytes.varintLength(history + FOOTER_BYTES) + history + FOOTER_BYTES;
    }

    /** Writes the start of a field, before a history of {@code history} bytes. */
    public static void beginField(Writer out, int history) {
        out.bytes(TAG).varint(history + FOOTER_BYTES);
    }

    /** Writes the end of a field, after a history of {@code history} bytes. */
    public static void endField(Writer out, int history) {
        out.u32(fieldLength(history)).u32(MAGIC);
    }

    /** The field with a history, to append to a serialized protobuf message. */
    public static byte[] encodeField(byte[] history) {
        Writer out = new Writer(fieldLength(history.length));
        beginField(out, history.length);
        out.bytes(history);
        endField(out, history.length);
        return out.array();
    }

    /** Writes the field with an envelope into an array at {@code at}. */
    public static void encodeField(byte[] out, int at, byte[] envelope) {
        Writer w = new Writer(out, at);
        beginField(w, envelope.length);
        w.bytes(envelope);
        endField(w, envelope.length);
    }

    /** The footer of a field with {@code length} bytes, as one number. */
    public static long footer(int length) {
        return (long) fieldLength(length) << 32 | MAGIC;
    }

    /** The tail with a history, to append to an HTTP body. */
    public static byte[] encodeTail(byte[] history) {
        return new Writer(history.length + FOOTER_BYTES).bytes(history).u32(history.length).u32(MAGIC).array();
    }

    /** The length in the footer, or -1: no footer. */
    private static long lengthInFooter(byte[] b, int from, int to) {
        return to - from >= FOOTER_BYTES && (int) Bytes.u32(b, to - 4) == MAGIC ? Bytes.u32(b, to - 8) : -1;
    }

    /** Cuts the field off the end of a message; null: there is none. */
    public static Cut cutField(byte[] b, int from, int to) {
        long n = lengthInFooter(b, from, to);
        if (n < TAG.length || n > to - from) {
            return null;
        }
        int start = to - (int) n;
        for (int i = 0; i < TAG.length; i++) {
            if (b[start + i] != TAG[i]) {
                return null;
            }
        }
        Reader r = new Reader(b, start + TAG.length, to);
        long size = r.varint();
        if (r.hasFailed() || size < FOOTER_BYTES || size != r.remaining()) {
            return null;
        }
        return new Cut(start, r.position(), to - FOOTER_BYTES);
    }

    /**
     * Cuts the tail off the end of a body; null: there is none. What does not begin like a history is part of the
     * body, whatever its end looks like.
     */
    public static Cut cutTail(byte[] b, int from, int to) {
        long n = lengthInFooter(b, from, to);
        if (n < 0 || n > to - from - FOOTER_BYTES) {
            return null;
        }
        int end = to - FOOTER_BYTES - (int) n;
        return History.canBeginTail(b, end, to - FOOTER_BYTES) ? new Cut(end, end, to - FOOTER_BYTES) : null;
    }

    /**
     * The value that counts of a header of ours, from the joined values of its lines; null for null. Lines of the same
     * name are one list, which servers and proxies may join with commas (RFC 9110 §5.3); its last member counts.
     */
    public static String lastValue(String joined) {
        if (joined == null) {
            return null;
        }
        int from = joined.lastIndexOf(',') + 1;
        int to = joined.length();
        while (from < to && isBlank(joined.charAt(from))) {
            from++;
        }
        while (from < to && isBlank(joined.charAt(to - 1))) {
            to--;
        }
        return joined.substring(from, to);
    }

    private static boolean isBlank(char c) {
        return c == ' ' || c == '\t';
    }

    /** Chooses the carrier of an HTTP reply. {@code complete}: the handler has completed. */
    public static Choice choose(int historyBytes, boolean complete, int accept, String method, Headers request, int status,
            Headers reply) {
        if (historyBytes <= MAX_HEADER_BYTES) {
            return Choice.HEADER;
        }
        return complete && allowsTail(accept, method, request, status, reply) ? Choice.TAIL : Choice.TRUNCATED_HEADER;
    }

    /** Whether a reply with this HTTP status may have a tail. An announcement on any other counts for nothing. */
    public static boolean mayHaveTail(int status) {
        return status == 200 || status >= 400;
    }

    /** Whether an HTTP reply may carry a tail, apart from the handler having completed. */
    public static boolean allowsTail(int accept, String method, Headers request, int status, Headers reply) {
        if ((accept & Accept.TAIL) == 0 || !mayHaveTail(status) || method.equals("HEAD") || isFramed(reply)) {
            return false;
        }
        String encoding = reply.get("content-encoding");
        if (encoding != null && !encoding.trim().equalsIgnoreCase("identity")) {
            return false;
        }
        for (String name : HEADERS_WITHOUT_TAIL) {
            if (reply.get(name) != null) {
                return false;
            }
        }
        return request.get("range") == null && request.get("upgrade") == null;
    }

    /** Whether a body consists of frames that a parser reads to its end: gRPC, gRPC-Web, and the streams of Connect. */
    private static boolean isFramed(Headers reply) {
        String type = reply.get("content-type");
        if (type == null) {
            return false;
        }
        String lower = type.trim().toLowerCase(Locale.ROOT);
        return lower.startsWith("application/grpc") || lower.startsWith("application/connect+");
    }

    private static final String[] HEADERS_WITHOUT_TAIL =
            {"content-range", "digest", "content-digest", "repr-digest", "content-md5", "trailer", "upgrade"};

    /**
     * Whether a reply is a stream of items that its reader processes one by one. Such a reply gets no tail: the start
     * of a tail is certain only at the end, so bytes of an item might be held back until then.
     */
    public static boolean isStreamed(Headers reply) {
        String type = reply.get("content-type");
        if (type != null) {
            int end = type.indexOf(';');
            switch ((end < 0 ? type : type.substring(0, end)).trim().toLowerCase(Locale.ROOT)) {
                case "text/event-stream":
                case "application/x-ndjson":
                case "application/ndjson":
                case "application/jsonl":
                case "application/json-seq":
                case "application/stream+json":
                case "multipart/x-mixed-replace":
                    return true;
                default:
            }
        }
        String buffering = reply.get("x-accel-buffering");
        return buffering != null && buffering.trim().equalsIgnoreCase("no");
    }

    /** Overwrites the second half of a body with 0xFF, in place. */
    public static void corruptBody(byte[] b, int from, int to) {
        for (int i = from + (to - from) / 2; i < to; i++) {
            b[i] = (byte) 0xFF;
        }
    }
}

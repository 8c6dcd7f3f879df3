package dev.faultloom.wire;

/** What a fault makes the caller see. */
public enum Kind {
    /** Connection refused; the callee does not run. */
    UNAVAILABLE("unavailable"),
    /** Status {@code arg}; the callee does not run. */
    STATUS("status"),
    /** Deadline exceeded at once; the callee does not run. */
    DEADLINE("deadline"),
    /** Connection reset; the callee does not run. */
    RESET("reset"),
    /** The reply, after {@code arg} milliseconds (at most 30 s). */
    DELAY("delay"),
    /** Nothing until the deadline or {@code arg} milliseconds (30 s if unset), then deadline exceeded; the callee does not run. */
    HANG("hang"),
    /** The callee runs, the connection breaks. */
    LOST_REPLY("lost-reply"),
    /** The callee runs, its reply arrives empty. */
    EMPTY_REPLY("empty-reply"),
    /** The callee runs, the second half of its reply is 0xFF. */
    CORRUPT_REPLY("corrupt-reply");

    private static final Kind[] ALL = values();

    private final String text;

    Kind(String text) {
        this.text = text;
    }

    /** The name in plans' text, such as {@code lost-reply}. */
    public String text() {
        return text;
    }

    /** The number on the wire, 1..9. */
    public int number() {
        return ordinal() + 1;
    }

    /** Whether the request is really sent. */
    public boolean calleeRuns() {
        return this == DELAY || this == LOST_REPLY || this == EMPTY_REPLY || this == CORRUPT_REPLY;
    }

    /** The kind with that number, or null. */
    public static Kind of(int number) {
        return number >= 1 && number <= ALL.length ? ALL[number - 1] : null;
    }

    /** The kind with that name, or null. */
    public static Kind of(String text) {
        for (Kind kind : ALL) {
            if (kind.text.equals(text)) {
                return kind;
            }
        }
        return null;
    }
}

package dev.faultloom.wire;

/** The kinds of faults. Their effects are defined in {@code dev.faultloom.hooks.faults}. */
public enum FaultKind {
    /** Connection refused; the callee does not run. */
    UNAVAILABLE("unavailable"),
    /** Status {@code arg}; the callee does not run. */
    STATUS("status"),
    /** Deadline exceeded at once; the callee does not run. */
    DEADLINE("deadline"),
    /** Connection reset; the callee does not run. */
    RESET("reset"),
    /** The call is sent after {@code arg} milliseconds (at most 30 s). */
    DELAY("delay"),
    /** Deadline exceeded after {@code arg} milliseconds (30 s if unset) or at the deadline; the callee does not run. */
    HANG("hang"),
    /** The callee runs, the connection breaks. */
    LOST_REPLY("lost-reply"),
    /** The callee runs, its reply arrives empty. */
    EMPTY_REPLY("empty-reply"),
    /** The callee runs, the second half of its reply is 0xFF. */
    CORRUPT_REPLY("corrupt-reply");

    private static final FaultKind[] ALL = values();

    private final String text;

    FaultKind(String text) {
        this.text = text;
    }

    /** The name in plans, such as {@code lost-reply}. */
    public String text() {
        return text;
    }

    /** The number on the wire, 1..9. */
    public int number() {
        return ordinal() + 1;
    }

    /** The kind with this number, or null. */
    public static FaultKind of(int number) {
        return number >= 1 && number <= ALL.length ? ALL[number - 1] : null;
    }

    /** The kind with this name, or null. */
    public static FaultKind of(String text) {
        for (FaultKind kind : ALL) {
            if (kind.text.equals(text)) {
                return kind;
            }
        }
        return null;
    }
}

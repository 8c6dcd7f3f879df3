package dev.faultloom.hooks.faults;

/** The outcome of a call for its caller. */
public enum Outcome {
    /** Connection refused. */
    REFUSED("refused"),
    /** Connection reset while waiting for the reply. */
    RESET("reset"),
    /** The caller's deadline or timeout. */
    DEADLINE("deadline"),
    /** A reply with a status and nothing else. */
    STATUS("status"),
    /** The callee's reply. */
    REPLY("reply"),
    /** A reply that arrives is lost. Only an effect before the call: the caller then gets RESET. */
    LOST("lost"),
    /** The callee's status with an empty body or message. */
    EMPTY("empty"),
    /** The callee's reply with its second half overwritten. */
    CORRUPT("corrupt"),
    /** The failure that really happened. */
    FAILED("failed");

    private final String text;

    Outcome(String text) {
        this.text = text;
    }

    /** The name in {@code spec/vectors}. */
    public String text() {
        return text;
    }
}

package dev.faultloom.wire;

import java.util.Objects;

/** A prerequisite of a fault: calls that match the selector must have happened {@code times} times. */
public final class After {
    /** Which calls. */
    public final Selector selector;
    /** How often, at least 1, unsigned. */
    public final long times;

    public After(Selector selector, long times) {
        this.selector = Objects.requireNonNull(selector);
        this.times = times;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof After && selector.equals(((After) other).selector) && times == ((After) other).times;
    }

    @Override
    public int hashCode() {
        return selector.hashCode() * 31 + Long.hashCode(times);
    }
}

package dev.faultloom.wire;

import java.util.Objects;

/** A prerequisite of a fault: {@code times} calls that match the selector must precede it. */
public final class Prerequisite {
    /** The calls to count. */
    public final Selector selector;
    /** At least 1, unsigned. */
    public final long times;

    public Prerequisite(Selector selector, long times) {
        this.selector = Objects.requireNonNull(selector);
        this.times = times;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Prerequisite && selector.equals(((Prerequisite) other).selector) && times == ((Prerequisite) other).times;
    }

    @Override
    public int hashCode() {
        return selector.hashCode() * 31 + Long.hashCode(times);
    }
}

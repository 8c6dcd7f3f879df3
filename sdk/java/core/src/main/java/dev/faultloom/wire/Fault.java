package dev.faultloom.wire;

import java.util.List;
import java.util.Objects;

/** One entry of a plan. Zero means "not set" for {@link #arg}, {@link #nth} and {@link #maxFires}; all are unsigned. */
public final class Fault {
    public final Kind kind;
    public final Selector selector;
    /** status: the code; delay, hang: milliseconds. */
    public final long arg;
    /** Fire at this matching send only, counted from 1. */
    public final long nth;
    /** Fire at most this often. */
    public final long maxFires;
    /** All must hold; at most 8. */
    public final List<After> after;
    /** {@link #after} counts calls when they are sent, instead of when they are completed. */
    public final boolean afterSent;

    Fault(Kind kind, Selector selector, long arg, long nth, long maxFires, List<After> after, boolean afterSent) {
        this.kind = Objects.requireNonNull(kind);
        this.selector = Objects.requireNonNull(selector);
        this.arg = arg;
        this.nth = nth;
        this.maxFires = maxFires;
        this.after = after;
        this.afterSent = afterSent;
    }

    /** A fault of that kind at every call. */
    public static Fault of(Kind kind) {
        return new Fault(kind, Selector.ANY, 0, 0, 0, List.of(), false);
    }

    /** This fault, with that selector. */
    public Fault at(Selector selector) {
        return new Fault(kind, selector, arg, nth, maxFires, after, afterSent);
    }

    /** This fault, at calls to that callee. */
    public Fault callee(String callee) {
        return at(new Selector(selector.caller, callee, selector.call));
    }

    /** This fault, with that argument: a status code, or milliseconds. */
    public Fault arg(long arg) {
        return new Fault(kind, selector, arg, nth, maxFires, after, afterSent);
    }

    /** This fault, at the n-th matching send only. */
    public Fault nth(long nth) {
        return new Fault(kind, selector, arg, nth, maxFires, after, afterSent);
    }

    /** This fault, at most so often. */
    public Fault maxFires(long maxFires) {
        return new Fault(kind, selector, arg, nth, maxFires, after, afterSent);
    }

    /** This fault, after these calls have completed. */
    public Fault after(List<After> after) {
        return new Fault(kind, selector, arg, nth, maxFires, List.copyOf(after), false);
    }

    /** This fault, after these calls were sent. */
    public Fault afterSent(List<After> after) {
        return new Fault(kind, selector, arg, nth, maxFires, List.copyOf(after), true);
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof Fault)) {
            return false;
        }
        Fault f = (Fault) other;
        return kind == f.kind && selector.equals(f.selector) && arg == f.arg && nth == f.nth && maxFires == f.maxFires
                && after.equals(f.after) && afterSent == f.afterSent;
    }

    @Override
    public int hashCode() {
        return Objects.hash(kind, selector, arg, nth, maxFires, after, afterSent);
    }

    @Override
    public String toString() {
        return kind.text() + " " + selector;
    }
}

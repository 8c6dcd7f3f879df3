package dev.faultloom.wire;

import java.util.List;
import java.util.Objects;

/** A fault of a plan. Zero means "not set" for {@link #arg}, {@link #nth} and {@link #maxFires}; all are unsigned. */
public final class Fault {
    public final FaultKind kind;
    public final Selector selector;
    /** status: the code; delay, hang: milliseconds. */
    public final long arg;
    /** Fires only at this matching send, counted from 1. */
    public final long nth;
    /** Fires at most this often. */
    public final long maxFires;
    /** All must be met; at most 8. */
    public final List<Prerequisite> after;
    /** {@link #after} counts calls when they are sent; otherwise when they complete. */
    public final boolean afterSent;

    Fault(FaultKind kind, Selector selector, long arg, long nth, long maxFires, List<Prerequisite> after, boolean afterSent) {
        this.kind = Objects.requireNonNull(kind);
        this.selector = Objects.requireNonNull(selector);
        this.arg = arg;
        this.nth = nth;
        this.maxFires = maxFires;
        this.after = after;
        this.afterSent = afterSent;
    }

    /** A fault of this kind at every call. */
    public static Fault of(FaultKind kind) {
        return new Fault(kind, Selector.ANY, 0, 0, 0, List.of(), false);
    }

    /** This fault with another selector. */
    public Fault selector(Selector selector) {
        return new Fault(kind, selector, arg, nth, maxFires, after, afterSent);
    }

    /** This fault, only at calls to this callee. */
    public Fault callee(String callee) {
        return selector(new Selector(selector.caller, callee, selector.call));
    }

    /** This fault with an argument: a status code, or milliseconds. */
    public Fault arg(long arg) {
        return new Fault(kind, selector, arg, nth, maxFires, after, afterSent);
    }

    /** This fault, only at the n-th matching send. */
    public Fault nth(long nth) {
        return new Fault(kind, selector, arg, nth, maxFires, after, afterSent);
    }

    /** This fault, at most this often. */
    public Fault maxFires(long maxFires) {
        return new Fault(kind, selector, arg, nth, maxFires, after, afterSent);
    }

    /** This fault, only after these calls have completed. */
    public Fault after(List<Prerequisite> after) {
        return new Fault(kind, selector, arg, nth, maxFires, List.copyOf(after), false);
    }

    /** This fault, only after these calls were sent. */
    public Fault afterSent(List<Prerequisite> after) {
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

package dev.faultloom.wire;

import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.Supplier;

/**
 * Keeps a few objects for use again. Not by thread: with virtual threads there are more of those than requests.
 */
public final class Pool<T> {
    private static final int SLOTS = 16;
    private static final int SPREAD = 16; // slots of different threads lie on different cache lines

    private final AtomicReferenceArray<T> kept = new AtomicReferenceArray<>(SLOTS * SPREAD);
    private final Supplier<T> maker;

    public Pool(Supplier<T> maker) {
        this.maker = maker;
    }

    private static int slot() {
        // neighbouring threads have neighbouring ids
        return ((int) Thread.currentThread().getId() & SLOTS - 1) * SPREAD;
    }

    /** One that nobody else has. */
    public T take() {
        T found = kept.getAndSet(slot(), null);
        return found != null ? found : maker.get();
    }

    /** Gives it back; the caller must not use it any more. */
    public void give(T used) {
        kept.lazySet(slot(), used);
    }
}

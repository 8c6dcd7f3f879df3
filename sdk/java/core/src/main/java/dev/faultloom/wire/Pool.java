package dev.faultloom.wire;

import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.Supplier;

/**
 * Keeps a few objects for reuse. Not thread-local, because there may be more virtual threads than requests.
 */
public final class Pool<T> {
    private static final int SLOTS = 16;
    private static final int SPREAD = 16; // keeps the slots of different threads on different cache lines

    private final AtomicReferenceArray<T> kept = new AtomicReferenceArray<>(SLOTS * SPREAD);
    private final Supplier<T> factory;

    public Pool(Supplier<T> factory) {
        this.factory = factory;
    }

    private static int slot() {
        // threads that start together have adjacent ids
        return ((int) Thread.currentThread().getId() & SLOTS - 1) * SPREAD;
    }

    /** An unused object: a kept one, or a new one. */
    public T acquire() {
        T found = kept.getAndSet(slot(), null);
        return found != null ? found : factory.get();
    }

    /** Returns an object to the pool; the caller must not use it afterwards. */
    public void release(T used) {
        kept.lazySet(slot(), used);
    }
}

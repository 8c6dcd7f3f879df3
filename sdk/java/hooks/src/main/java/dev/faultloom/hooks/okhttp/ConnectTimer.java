package dev.faultloom.hooks.okhttp;

import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import okhttp3.Call;

/** The time that a call of OkHttp spends on connections of its own: name resolution, connecting, TLS. */
final class ConnectTimer {
    /** A timer refers to nothing, so that it does not keep its call alive. */
    private static final Map<Call, ConnectTimer> TIMERS = Collections.synchronizedMap(new WeakHashMap<>());

    private boolean waits; // for a connection
    private boolean connects; // in this wait
    private long startNanos; // of this wait
    private long nanos; // of all waits

    private ConnectTimer() {}

    /** The timer of a call that is created now. */
    static ConnectTimer create(Call call) {
        ConnectTimer timer = new ConnectTimer();
        TIMERS.put(call, timer);
        return timer;
    }

    /** The timer of a call, or null. */
    static ConnectTimer of(Call call) {
        return TIMERS.get(call);
    }

    /** A name is resolved. A connection is not certain: one to another name with the same address may exist. */
    synchronized void waits() {
        if (!waits) {
            waits = true;
            connects = false;
            startNanos = System.nanoTime();
        }
    }

    synchronized void connects() {
        waits();
        connects = true;
    }

    /** The call has a connection, maybe one that existed. */
    synchronized void connected() {
        if (waits && connects) {
            nanos += System.nanoTime() - startNanos;
        }
        waits = false;
    }

    /** The time until now in µs. */
    synchronized long us() {
        return nanos == 0 ? 0 : Math.max(1, nanos / 1000);
    }

    /** {@link #us} of a call that has failed. If it was waiting for a connection, it did so until now. */
    synchronized long usAtFailure() {
        if (waits) {
            nanos += System.nanoTime() - startNanos;
            waits = false;
        }
        return us();
    }
}

package dev.faultloom.scope;

import dev.faultloom.wire.Names;
import java.util.ArrayList;
import java.util.List;

/**
 * The calls of this process that belonged to no request while a scope was unfinished: the latest ones, and their
 * number. Each scope records those that were sent during its life.
 */
public final class UnscopedCalls {
    /** Of more calls than this only the number is known. */
    private static final int MAX_LATEST = 64;

    private static final SentCall[] LATEST = new SentCall[MAX_LATEST];
    private static volatile long count; // written with the class locked

    private UnscopedCalls() {}

    private static final class SentCall {
        final boolean http;
        final String authority;
        final String name;
        final String site;

        SentCall(boolean http, String authority, String name, String site) {
            this.http = http;
            this.authority = authority;
            this.name = name;
            this.site = site;
        }
    }

    /** Whether a call in this context (null: none) belongs to no request, and a scope is unfinished. */
    public static boolean counts(ScopeContext context) {
        return Scope.anyUnfinished() && (context == null || (context.scope() == null && !context.isUntraced()));
    }

    /** Counts a gRPC call. */
    public static void addGrpc(String authority, String method) {
        add(new SentCall(false, String.valueOf(authority), method, CallSite.current()));
    }

    /** Counts an HTTP call. */
    public static void addHttp(String authority, String method, String target) {
        add(new SentCall(true, authority, Names.rawHttpName(method, target), CallSite.current()));
    }

    private static synchronized void add(SentCall call) {
        LATEST[(int) (count % MAX_LATEST)] = call;
        count++;
    }

    /** The number of all calls so far. */
    static long count() {
        return count;
    }

    /** Records the calls after the first {@code before}. */
    static void record(Scope scope, long at, long before) {
        if (count == before) {
            return;
        }
        List<SentCall> sent = new ArrayList<>();
        long total;
        synchronized (UnscopedCalls.class) {
            total = count;
            for (long i = Math.max(before, total - MAX_LATEST); i < total; i++) {
                sent.add(LATEST[(int) (i % MAX_LATEST)]);
            }
        }
        List<UnscopedCall> calls = new ArrayList<>();
        for (SentCall call : sent) {
            String name = call.http ? Names.normalizeHttpName(call.name) : call.name;
            calls.add(new UnscopedCall(call.http, scope.process().peerName(call.authority), name, call.site));
        }
        scope.recordUnscoped(at, calls, total - before - calls.size());
    }
}

package dev.faultloom.scope;

import dev.faultloom.wire.Names;
import java.util.ArrayList;
import java.util.List;

/**
 * The calls of this process that belonged to no request while a scope was unfinished, and those that one scope has
 * inherited while others were: the latest ones, and their number. Each scope records those that were sent during its
 * life and are not its own.
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
        final Scope inheritedBy; // or null

        SentCall(boolean http, String authority, String name, String site, Scope inheritedBy) {
            this.http = http;
            this.authority = authority;
            this.name = name;
            this.site = site;
            this.inheritedBy = inheritedBy;
        }
    }

    /** Whether a call in this context (null: none) belongs to no request, and a scope is unfinished. */
    public static boolean counts(ScopeContext context) {
        return Scope.anyUnfinished() && (context == null || (context.scope() == null && !context.isUntraced()));
    }

    /** Counts a gRPC call. */
    public static void addGrpc(String authority, String method) {
        add(new SentCall(false, String.valueOf(authority), method, CallSite.current(), null));
    }

    /** Counts an HTTP call. */
    public static void addHttp(String authority, String method, String target) {
        add(new SentCall(true, authority, Names.rawHttpName(method, target), CallSite.current(), null));
    }

    /** Counts a call that a scope has recorded as inherited, for the others: its thread may work for them. */
    static void addInherited(Scope scope, boolean http, String peer, String name) {
        add(new SentCall(http, peer, name, CallSite.current(), scope));
    }

    private static synchronized void add(SentCall call) {
        LATEST[(int) (count % MAX_LATEST)] = call;
        count++;
        if (call.inheritedBy != null) {
            call.inheritedBy.addOwnUnscoped();
        }
    }

    /** The number of all calls so far. */
    static long count() {
        return count;
    }

    /** Records the calls since a scope began, without its own. */
    static void record(Scope scope, long at) {
        long before = scope.unscopedBefore();
        if (count == before) {
            return;
        }
        List<SentCall> sent = new ArrayList<>();
        long others;
        synchronized (UnscopedCalls.class) {
            others = count - before - scope.ownUnscoped();
            for (long i = Math.max(before, count - MAX_LATEST); i < count; i++) {
                SentCall call = LATEST[(int) (i % MAX_LATEST)];
                if (call.inheritedBy != scope) {
                    sent.add(call);
                }
            }
        }
        List<UnscopedCall> calls = new ArrayList<>();
        for (SentCall call : sent) {
            String name = call.http ? Names.normalizeHttpName(call.name) : call.name;
            calls.add(new UnscopedCall(call.http, scope.process().peerName(call.authority), name, call.site));
        }
        scope.recordUnscoped(at, calls, others - calls.size());
    }
}

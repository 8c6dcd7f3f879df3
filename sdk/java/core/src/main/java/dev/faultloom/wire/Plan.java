package dev.faultloom.wire;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * The plan of a request: its faults, with their strings in one table.
 *
 * <pre>
 * varint  number of strings (0..128), then each: str (1..128)
 * varint  number of faults (1..64), then each: kind, flags, selector, the values that the flags announce
 * </pre>
 */
public final class Plan {
    public static final int MAX_FAULTS = 64;
    public static final int MAX_STRINGS = 128;
    private static final int MAX_STRING_BYTES = 128;
    private static final int MAX_AFTER = 8;

    private static final int ARG = 1;
    private static final int NTH = 2;
    private static final int MAX_FIRES = 4;
    private static final int AFTER = 8;
    private static final int AFTER_SENT = 16;

    private Plan() {}

    /** The number of evidence counters of a plan (null: none) in the hop part. */
    public static int counterCount(List<Fault> plan) {
        int n = 0;
        if (plan != null) {
            for (Fault f : plan) {
                n += (f.nth != 0 ? 1 : 0) + (f.maxFires != 0 ? 1 : 0) + f.after.size();
            }
        }
        return n;
    }

    /**
     * Decodes the plan in these bytes; the result is unmodifiable. Errors: malformed, too_many_faults, unknown_fault.
     */
    static List<Fault> decode(byte[] bytes, int from, int to) throws WireError {
        Reader r = new Reader(bytes, from, to);
        String[] strings = new String[1 + r.count(MAX_STRINGS)];
        strings[0] = "";
        for (int i = 1; i < strings.length; i++) {
            strings[i] = r.string(1, MAX_STRING_BYTES);
        }
        long faults = r.varint();
        if (r.hasFailed() || faults == 0) {
            throw WireError.MALFORMED;
        }
        if (Long.compareUnsigned(faults, MAX_FAULTS) > 0) {
            throw WireError.TOO_MANY_FAULTS;
        }
        Fault[] plan = new Fault[(int) faults];
        for (int i = 0; i < plan.length; i++) {
            plan[i] = fault(r, strings);
        }
        if (r.hasFailed() || r.remaining() != 0) {
            throw WireError.MALFORMED;
        }
        return Collections.unmodifiableList(Arrays.asList(plan));
    }

    private static Fault fault(Reader r, String[] strings) throws WireError {
        int number = r.u8();
        if (r.hasFailed()) {
            throw WireError.MALFORMED;
        }
        FaultKind kind = FaultKind.of(number);
        if (kind == null) {
            throw WireError.UNKNOWN_FAULT;
        }
        int flags = r.u8();
        if (flags > 31) {
            throw WireError.MALFORMED;
        }
        Selector selector = selector(r, strings);
        long arg = (flags & ARG) != 0 ? r.varint() : 0;
        long nth = (flags & NTH) != 0 ? positive(r) : 0;
        long maxFires = (flags & MAX_FIRES) != 0 ? positive(r) : 0;
        List<Prerequisite> after = List.of();
        if ((flags & AFTER) != 0) {
            int n = r.count(MAX_AFTER);
            if (n == 0) {
                throw WireError.MALFORMED;
            }
            Prerequisite[] entries = new Prerequisite[n];
            for (int i = 0; i < n; i++) {
                entries[i] = new Prerequisite(selector(r, strings), positive(r));
            }
            after = Collections.unmodifiableList(Arrays.asList(entries));
        }
        if (r.hasFailed()) {
            throw WireError.MALFORMED;
        }
        return new Fault(kind, selector, arg, nth, maxFires, after, (flags & AFTER_SENT) != 0);
    }

    private static Selector selector(Reader r, String[] strings) {
        String caller = strings[r.count(strings.length - 1)];
        String callee = strings[r.count(strings.length - 1)];
        return new Selector(caller, callee, strings[r.count(strings.length - 1)]);
    }

    private static long positive(Reader r) {
        long v = r.varint();
        if (v == 0) {
            r.fail();
        }
        return v;
    }

    /** Encodes a plan. Errors: too_many_faults, envelope_too_large, malformed for a plan without faults. */
    static void write(Writer out, List<Fault> plan) throws WireError {
        if (plan.isEmpty()) {
            throw WireError.MALFORMED;
        }
        if (plan.size() > MAX_FAULTS) {
            throw WireError.TOO_MANY_FAULTS;
        }
        List<String> strings = new ArrayList<>();
        Writer body = new Writer(256).varint(plan.size());
        for (Fault f : plan) {
            if (f.after.size() > MAX_AFTER) {
                throw WireError.ENVELOPE_TOO_LARGE;
            }
            body.u8(f.kind.number());
            body.u8((f.arg != 0 ? ARG : 0) | (f.nth != 0 ? NTH : 0) | (f.maxFires != 0 ? MAX_FIRES : 0)
                    | (f.after.isEmpty() ? 0 : AFTER) | (f.afterSent ? AFTER_SENT : 0));
            write(body, f.selector, strings);
            for (long v : new long[] {f.arg, f.nth, f.maxFires}) {
                if (v != 0) {
                    body.varint(v);
                }
            }
            if (!f.after.isEmpty()) {
                body.varint(f.after.size());
                for (Prerequisite a : f.after) {
                    write(body, a.selector, strings);
                    body.varint(a.times);
                }
            }
        }
        if (strings.size() > MAX_STRINGS) {
            throw WireError.ENVELOPE_TOO_LARGE;
        }
        out.varint(strings.size());
        for (String s : strings) {
            if (Text.utf8Length(s) > MAX_STRING_BYTES) {
                throw WireError.ENVELOPE_TOO_LARGE;
            }
            out.string(s);
        }
        out.bytes(body.array(), 0, body.length());
    }

    private static void write(Writer body, Selector s, List<String> strings) {
        index(body, s.caller, strings);
        index(body, s.callee, strings);
        index(body, s.call, strings);
    }

    private static void index(Writer body, String text, List<String> strings) {
        if (text.isEmpty()) {
            body.u8(0);
            return;
        }
        int at = strings.indexOf(text);
        if (at < 0) {
            strings.add(text);
            at = strings.size() - 1;
        }
        body.varint(at + 1);
    }
}

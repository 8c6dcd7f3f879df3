package dev.faultloom.conform;

import dev.faultloom.wire.Accept;
import dev.faultloom.wire.CallId;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Event;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.Prerequisite;
import dev.faultloom.wire.Segment;
import dev.faultloom.wire.Text;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Envelopes and histories in results. */
final class Output {
    private Output() {}

    /** An object from alternating keys and values. */
    static Map<String, Object> object(Object... members) {
        Map<String, Object> out = new HashMap<>();
        for (int i = 0; i < members.length; i += 2) {
            out.put((String) members[i], members[i + 1]);
        }
        return out;
    }

    static BigInteger unsigned(long v) {
        return new BigInteger(Long.toUnsignedString(v));
    }

    static String hexOrNull(byte[] b) {
        return b == null ? null : Text.hex(b);
    }

    static Map<String, Object> envelope(Envelope e) {
        List<String> accept = new ArrayList<>();
        if ((e.hop.accept & Accept.FIELD) != 0) {
            accept.add("field");
        }
        if ((e.hop.accept & Accept.TAIL) != 0) {
            accept.add("tail");
        }
        List<Object> plan = null;
        if (e.signed.plan != null) {
            plan = new ArrayList<>();
            for (Fault f : e.signed.plan) {
                plan.add(fault(f));
            }
        }
        List<BigInteger> evidence = new ArrayList<>();
        for (long n : e.hop.evidence) {
            evidence.add(unsigned(n));
        }
        return object("trace", e.signed.trace(), "run", hexOrNull(e.signed.run), "bridge", e.signed.bridge, "expires",
                e.signed.expires, "key", e.signed.keyId, "environment", e.signed.environment, "history", e.signed.history,
                "plan", plan, "call", Text.hex(e.hop.call), "accept", accept, "receive_limit", unsigned(e.hop.receiveLimit),
                "evidence", evidence);
    }

    private static Map<String, Object> fault(Fault f) {
        List<Object> after = new ArrayList<>();
        for (Prerequisite a : f.after) {
            after.add(object("caller", a.selector.caller, "callee", a.selector.callee, "call", a.selector.call, "times",
                    unsigned(a.times)));
        }
        return object("kind", f.kind.text(), "arg", unsigned(f.arg), "caller", f.selector.caller, "callee", f.selector.callee,
                "call", f.selector.call, "nth", unsigned(f.nth), "max_fires", unsigned(f.maxFires), "after", after,
                "after_counts", f.afterSent ? "sent" : "completed");
    }

    static Map<String, Object> segment(Segment s, long call) {
        List<Object> events = new ArrayList<>();
        for (Event e : s.events) {
            events.add(event(e, call));
        }
        return object("service", s.service, "name", s.name, "start_us", unsigned(s.startUs), "truncated", s.truncated,
                "faults_off", s.faultsOff, "events", events);
    }

    private static Map<String, Object> event(Event e, long call) {
        Object at = unsigned(e.atUs);
        if (e.kind == Event.SEND_REQUEST) {
            Map<String, Object> sent = object("kind", "SEND_REQUEST", "at_us", at, "call", e.call, "id",
                    Text.hex(CallId.derive(call, e.call)), "name", e.name, "peer", e.peer, "protocol", protocol(e), "fault",
                    e.fault < 0 ? null : e.fault);
            if (e.inherited) {
                sent.put("inherited", true);
            }
            return sent;
        }
        if (e.kind == Event.UNSCOPED_CALLS) {
            return object("kind", "UNSCOPED_CALLS", "at_us", at, "name", e.name, "peer", e.peer, "protocol", protocol(e),
                    "count", unsigned(e.count), "site", e.site);
        }
        if (e.kind == Event.SEND_RESPONSE) {
            return object("kind", "SEND_RESPONSE", "at_us", at, "status", unsigned(e.status));
        }
        Map<String, Object> ended = object("kind", e.kind == Event.CALL_FAILED ? "CALL_FAILED" : "RECV_RESPONSE", "at_us", at, "call", e.call,
                "status", unsigned(e.status), "gap", e.gap, "child",
                e.child == null ? null : segment(e.child, CallId.derive(call, e.call)));
        if (e.connectUs != 0) {
            ended.put("connect_us", unsigned(e.connectUs));
        }
        return ended;
    }

    private static String protocol(Event e) {
        return e.http ? "http" : "grpc";
    }

    /** Part of an array. */
    static String hex(byte[] b, int from, int to) {
        return Text.hex(Arrays.copyOfRange(b, from, to));
    }
}

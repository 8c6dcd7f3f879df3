package dev.faultloom.scope;

import dev.faultloom.wire.After;
import dev.faultloom.wire.Event;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.Segment;
import java.util.Arrays;
import java.util.List;

/**
 * What a plan's conditions are judged by. It is only what is causally known: what the caller knew when it sent the request,
 * and what replies have told since. The counters lie as the hop part has them: a counter that no condition asks for is not
 * kept.
 */
final class Evidence {
    private final List<Fault> plan;
    private final long[] counters;

    Evidence(List<Fault> plan, long[] hop) {
        this.plan = plan;
        this.counters = Arrays.copyOf(hop, hop.length);
    }

    /** The counters for a hop part; not to be changed, and different after the next send or reply. */
    long[] counters() {
        return counters;
    }

    /** Counts the send and returns the index of the fault that fires at it, or -1. */
    int decide(String caller, String peer, String name, boolean on) {
        int chosen = -1;
        int at = 0;
        for (int i = 0; i < plan.size(); i++) {
            Fault f = plan.get(i);
            if (f.selector.matches(caller, peer, name)) {
                if (f.nth != 0) {
                    counters[at]++;
                }
                if (on && chosen < 0 && ready(f, at)) {
                    chosen = i;
                    if (f.maxFires != 0) {
                        counters[fired(f, at)]++;
                    }
                }
            }
            at = next(f, at);
        }
        return chosen;
    }

    private boolean ready(Fault f, int at) {
        int after = after(f, at);
        for (int j = 0; j < f.after.size(); j++) {
            if (Long.compareUnsigned(counters[after + j], f.after.get(j).times) < 0) {
                return false;
            }
        }
        return (f.nth == 0 || f.nth == counters[at])
                && (f.maxFires == 0 || Long.compareUnsigned(counters[fired(f, at)], f.maxFires) < 0);
    }

    private static int fired(Fault f, int at) {
        return f.nth != 0 ? at + 1 : at;
    }

    private static int after(Fault f, int at) {
        return fired(f, at) + (f.maxFires != 0 ? 1 : 0);
    }

    private static int next(Fault f, int at) {
        return after(f, at) + f.after.size();
    }

    /** Counts prerequisites: those of faults that count sent calls, or those of faults that count completed ones. */
    void count(boolean sent, String caller, String peer, String name) {
        int at = 0;
        for (int i = 0; i < plan.size(); i++) {
            Fault f = plan.get(i);
            if (f.afterSent == sent) {
                for (int j = 0; j < f.after.size(); j++) {
                    After a = f.after.get(j);
                    if (a.selector.matches(caller, peer, name)) {
                        counters[after(f, at) + j]++;
                    }
                }
            }
            at = next(f, at);
        }
    }

    /** Learns from the history of a call that came back. */
    void walk(Segment s) {
        Event[] sent = new Event[s.events.size() + 1];
        for (Event e : s.events) {
            if (e.kind == Event.SEND_REQUEST) {
                sent[e.call] = e;
                learn(s.service, e);
            } else if (e.kind == Event.RECV_RESPONSE) {
                count(false, s.service, sent[e.call].peer, sent[e.call].name);
            }
            if (e.child != null) {
                walk(e.child);
            }
        }
    }

    private void learn(String service, Event send) {
        int at = 0;
        for (int i = 0; i < plan.size(); i++) {
            Fault f = plan.get(i);
            if (f.nth != 0 && f.selector.matches(service, send.peer, send.name)) {
                counters[at]++;
            }
            if (f.maxFires != 0 && send.fault == i) {
                counters[fired(f, at)]++;
            }
            at = next(f, at);
        }
        count(true, service, send.peer, send.name);
    }
}

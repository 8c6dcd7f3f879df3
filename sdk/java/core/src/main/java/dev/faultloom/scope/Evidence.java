package dev.faultloom.scope;

import dev.faultloom.wire.Event;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.Prerequisite;
import dev.faultloom.wire.Segment;
import java.util.Arrays;
import java.util.List;

/**
 * The counters against which the conditions of a plan are evaluated. They cover only what causally precedes the next
 * send: the caller's counters when it sent the request, plus the replies received since. The array has the layout of
 * the hop part: conditions that a fault does not have occupy no counter.
 */
final class Evidence {
    private final List<Fault> plan;
    private final long[] counters;
    /** Whether any fault depends on what was counted, so that histories must be read. */
    final boolean hasConditions;

    Evidence(List<Fault> plan, long[] hop) {
        this.plan = plan;
        this.counters = Arrays.copyOf(hop, hop.length);
        this.hasConditions = counters.length > 0;
    }

    /** The counters for a hop part. Read-only; the next send or reply changes them. */
    long[] counters() {
        return counters;
    }

    /** Counts the send and returns the index of the fault that fires, or -1. {@code enabled}: faults may fire here. */
    int decideFault(String caller, String peer, String name, boolean enabled) {
        int chosen = -1;
        int at = 0;
        for (int i = 0; i < plan.size(); i++) {
            Fault f = plan.get(i);
            if (f.selector.matches(caller, peer, name)) {
                if (f.nth != 0) {
                    counters[at]++;
                }
                if (enabled && chosen < 0 && canFire(f, at)) {
                    chosen = i;
                    if (f.maxFires != 0) {
                        counters[firedIndex(f, at)]++;
                    }
                }
            }
            at = nextFaultIndex(f, at);
        }
        return chosen;
    }

    private boolean canFire(Fault f, int at) {
        int after = prerequisiteIndex(f, at);
        for (int j = 0; j < f.after.size(); j++) {
            if (Long.compareUnsigned(counters[after + j], f.after.get(j).times) < 0) {
                return false;
            }
        }
        return (f.nth == 0 || f.nth == counters[at])
                && (f.maxFires == 0 || Long.compareUnsigned(counters[firedIndex(f, at)], f.maxFires) < 0);
    }

    private static int firedIndex(Fault f, int at) {
        return f.nth != 0 ? at + 1 : at;
    }

    private static int prerequisiteIndex(Fault f, int at) {
        return firedIndex(f, at) + (f.maxFires != 0 ? 1 : 0);
    }

    private static int nextFaultIndex(Fault f, int at) {
        return prerequisiteIndex(f, at) + f.after.size();
    }

    /**
     * Counts a call for the prerequisites of the faults that count sent calls, or of those that count completed calls.
     */
    void countPrerequisites(boolean sent, String caller, String peer, String name) {
        int at = 0;
        for (int i = 0; i < plan.size(); i++) {
            Fault f = plan.get(i);
            if (f.afterSent == sent) {
                for (int j = 0; j < f.after.size(); j++) {
                    Prerequisite a = f.after.get(j);
                    if (a.selector.matches(caller, peer, name)) {
                        counters[prerequisiteIndex(f, at) + j]++;
                    }
                }
            }
            at = nextFaultIndex(f, at);
        }
    }

    /** Counts all calls in the history that a reply carried. */
    void addHistory(Segment s) {
        Event[] sent = new Event[s.events.size() + 1];
        for (Event e : s.events) {
            if (e.kind == Event.SEND_REQUEST) {
                sent[e.call] = e;
                addSend(s.service, e);
            } else if (e.kind == Event.RECV_RESPONSE) {
                countPrerequisites(false, s.service, sent[e.call].peer, sent[e.call].name);
            }
            if (e.child != null) {
                addHistory(e.child);
            }
        }
    }

    private void addSend(String service, Event send) {
        int at = 0;
        for (int i = 0; i < plan.size(); i++) {
            Fault f = plan.get(i);
            if (f.nth != 0 && f.selector.matches(service, send.peer, send.name)) {
                counters[at]++;
            }
            if (f.maxFires != 0 && send.fault == i) {
                counters[firedIndex(f, at)]++;
            }
            at = nextFaultIndex(f, at);
        }
        countPrerequisites(true, service, send.peer, send.name);
    }
}

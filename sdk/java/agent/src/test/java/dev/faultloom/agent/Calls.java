package dev.faultloom.agent;

import dev.faultloom.wire.Event;
import dev.faultloom.wire.Segment;
import java.util.ArrayList;
import java.util.List;

/** Formats the calls of a segment as text, for assertions. */
final class Calls {
    private Calls() {}

    /** For each call {@code name > peer: replied|failed|open status [inherited] [fault N] [gap] [child service]}. */
    static List<String> of(Segment segment) {
        List<String> out = new ArrayList<>();
        for (Event sent : segment.events) {
            if (sent.kind != Event.SEND_REQUEST) {
                continue;
            }
            StringBuilder text = new StringBuilder(sent.name).append(" > ").append(sent.peer).append(": ");
            Event end = null;
            for (Event event : segment.events) {
                if ((event.kind == Event.RECV_RESPONSE || event.kind == Event.CALL_FAILED) && event.call == sent.call) {
                    end = event;
                }
            }
            if (end == null) {
                text.append("open");
            } else {
                text.append(end.kind == Event.RECV_RESPONSE ? "replied " : "failed ").append(end.status);
            }
            if (sent.inherited) {
                text.append(" inherited");
            }
            if (sent.fault >= 0) {
                text.append(" fault ").append(sent.fault);
            }
            if (end != null && end.gap) {
                text.append(" gap");
            }
            if (end != null && end.child != null) {
                text.append(" child ").append(end.child.service);
            }
            out.add(text.toString());
        }
        return out;
    }

    /** For each call that has ended, how long it spent on a connection, in µs. */
    static List<Long> connectTimes(Segment segment) {
        List<Long> out = new ArrayList<>();
        for (Event event : segment.events) {
            if (event.kind == Event.RECV_RESPONSE || event.kind == Event.CALL_FAILED) {
                out.add(event.connectUs);
            }
        }
        return out;
    }

    /** For each kind of call without a scope {@code count × name > peer at file}. */
    static List<String> unscoped(Segment segment) {
        List<String> out = new ArrayList<>();
        for (Event event : segment.events) {
            if (event.kind == Event.UNSCOPED_CALLS) {
                out.add(event.count + " × " + event.name + " > " + event.peer + " at " + event.site.replaceFirst(":[0-9]+$", ""));
            }
        }
        return out;
    }

    /** The segment of the callee of the n-th call, from 1. */
    static Segment child(Segment segment, int call) {
        for (Event event : segment.events) {
            if (event.child != null && event.call == call) {
                return event.child;
            }
        }
        throw new AssertionError("no child: " + of(segment));
    }
}

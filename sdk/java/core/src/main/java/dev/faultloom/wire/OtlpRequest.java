package dev.faultloom.wire;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Converts histories into spans, in the JSON encoding of OTLP/HTTP: one resource per service, in the order in which
 * services first appear. Keys are sorted; there is no white space.
 */
public final class OtlpRequest {
    private final Map<String, StringBuilder> services = new LinkedHashMap<>();
    private String trace;

    /** Adds a history. {@code hasParent}: its request carried a {@code traceparent}, so its first span has a parent. */
    public OtlpRequest add(long traceHigh, long traceLow, boolean hasParent, History history) {
        trace = Text.hex(traceHigh, traceLow);
        segment(history.segment, history.call, "", hasParent);
        return this;
    }

    /** The request body for an OTLP/HTTP endpoint. */
    public String json() {
        StringBuilder out = new StringBuilder("{\"resourceSpans\":[");
        String separator = "";
        for (Map.Entry<String, StringBuilder> e : services.entrySet()) {
            out.append(separator).append("{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":");
            JsonText.appendQuoted(out, e.getKey());
            out.append("}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"faultloom\"},\"spans\":[").append(e.getValue()).append("]}]}");
            separator = ",";
        }
        return out.append("]}").toString();
    }

    private void segment(Segment s, long call, String callersName, boolean hasParent) {
        long server = CallId.derive(call, 0);
        List<Event> ends = new ArrayList<>();
        long last = 0;
        long unscoped = 0;
        Event response = null;
        for (Event e : s.events) {
            last = e.atUs;
            if (e.kind == Event.SEND_REQUEST) {
                ends.add(null);
            } else if (e.kind == Event.SEND_RESPONSE) {
                response = e;
            } else if (e.kind == Event.UNSCOPED_CALLS) {
                unscoped = plus(unscoped, e.count);
            } else {
                ends.set(e.call - 1, e);
            }
        }
        Attributes attributes = new Attributes();
        boolean failed = false;
        if (response != null) {
            boolean grpc = Long.compareUnsigned(response.status, 100) < 0;
            failed = grpc ? response.status != 0 : Long.compareUnsigned(response.status, 500) >= 0;
            attributes.status(grpc, response.status);
        }
        attributes.flag("faultloom.truncated", s.truncated);
        attributes.flag("faultloom.faults_off", s.faultsOff);
        if (unscoped != 0) {
            attributes.integer("faultloom.unscoped_calls", unscoped);
        }
        String name = !s.name.isEmpty() ? s.name : !callersName.isEmpty() ? callersName : s.service;
        span(s.service, attributes, plus(s.startUs, last), 2, name, hasParent, call, server, s.startUs, failed);
        for (Event e : s.events) {
            if (e.kind == Event.SEND_REQUEST) {
                Event end = ends.get(e.call - 1);
                long id = CallId.derive(call, e.call);
                client(s, e, end, server, id, plus(s.startUs, end == null ? last : end.atUs));
                if (end != null && end.child != null) {
                    segment(end.child, id, e.name, true);
                }
            }
        }
    }

    private void client(Segment s, Event send, Event end, long server, long id, long endUs) {
        Attributes attributes = new Attributes();
        boolean failed = false;
        boolean withoutReply = false;
        if (end != null) {
            withoutReply = end.kind == Event.CALL_FAILED;
            boolean grpc = withoutReply || !send.http;
            failed = withoutReply || (grpc ? end.status != 0 : Long.compareUnsigned(end.status, 400) >= 0);
            attributes.status(grpc, end.status);
        }
        attributes.key("peer.service").append("{\"stringValue\":");
        JsonText.appendQuoted(attributes.out, send.peer);
        attributes.out.append("}}");
        if (send.fault >= 0) {
            attributes.integer("faultloom.fault", send.fault);
        }
        attributes.flag("faultloom.failed", withoutReply);
        attributes.flag("faultloom.gap", end == null || end.gap);
        attributes.flag("faultloom.inherited", send.inherited);
        if (end != null && end.connectUs != 0) {
            attributes.integer("faultloom.connect_us", end.connectUs);
        }
        span(s.service, attributes, endUs, 3, send.name, true, server, id, plus(s.startUs, send.atUs), failed);
    }

    private void span(String service, Attributes attributes, long endUs, int kind, String name, boolean hasParent, long parent,
            long id, long startUs, boolean failed) {
        StringBuilder out = services.computeIfAbsent(service, s -> new StringBuilder());
        out.append(out.length() == 0 ? "" : ",");
        out.append("{\"attributes\":[").append(attributes.out).append("],\"endTimeUnixNano\":\"");
        nanos(out, endUs);
        out.append("\",\"kind\":").append(kind).append(",\"name\":");
        JsonText.appendQuoted(out, name);
        if (hasParent) {
            out.append(",\"parentSpanId\":\"").append(Text.hex(parent)).append('"');
        }
        out.append(",\"spanId\":\"").append(Text.hex(id)).append("\",\"startTimeUnixNano\":\"");
        nanos(out, startUs);
        out.append("\",\"status\":{").append(failed ? "\"code\":2" : "").append("},\"traceId\":\"").append(trace).append("\"}");
    }

    /** Saturates at the largest 64-bit value. */
    private static void nanos(StringBuilder out, long us) {
        boolean fits = Long.compareUnsigned(us, Long.divideUnsigned(-1, 1000)) <= 0;
        out.append(Long.toUnsignedString(fits ? us * 1000 : -1));
    }

    private static long plus(long a, long b) {
        return Long.compareUnsigned(a + b, a) < 0 ? -1 : a + b;
    }

    private static final class Attributes {
        final StringBuilder out = new StringBuilder();

        StringBuilder key(String key) {
            return out.append(out.length() == 0 ? "" : ",").append("{\"key\":\"").append(key).append("\",\"value\":");
        }

        void integer(String key, long v) {
            key(key).append("{\"intValue\":\"").append(Long.toUnsignedString(v)).append("\"}}");
        }

        void status(boolean grpc, long v) {
            integer(grpc ? "rpc.grpc.status_code" : "http.response.status_code", v);
        }

        void flag(String key, boolean v) {
            if (v) {
                key(key).append("{\"boolValue\":true}}");
            }
        }
    }
}

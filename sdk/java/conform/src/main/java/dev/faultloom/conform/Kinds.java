package dev.faultloom.conform;

import static dev.faultloom.conform.Output.hexOrNull;
import static dev.faultloom.conform.Output.object;

import dev.faultloom.trust.Receiver;
import dev.faultloom.trust.TrustSettings;
import dev.faultloom.wire.Accept;
import dev.faultloom.wire.Bridge;
import dev.faultloom.wire.BridgedEnvelope;
import dev.faultloom.wire.CallId;
import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.History;
import dev.faultloom.wire.Names;
import dev.faultloom.wire.OtlpRequest;
import dev.faultloom.wire.PieceJoiner;
import dev.faultloom.wire.Segment;
import dev.faultloom.wire.Selector;
import dev.faultloom.wire.Text;
import dev.faultloom.wire.Traceparent;
import dev.faultloom.wire.WireError;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Computes the result of each kind of vector. */
final class Kinds {
    /** Computes a result from an input. */
    interface Kind {
        Object result(Input in) throws Exception;
    }

    static final Map<String, Kind> ALL = new HashMap<>();

    static {
        ALL.put("envelope", Kinds::envelope);
        ALL.put("scope", ScopeSteps::play);
        ALL.put("hook", HookKind::result);
        ALL.put("history", Kinds::history);
        ALL.put("truncate", in -> object("history", hexOrNull(History.truncate(in.bytes("history"), (int) in.number("limit")))));
        ALL.put("field", in -> object("bytes", Text.hex(in.bytes("message")) + Text.hex(Carrier.encodeField(in.bytes("history")))));
        ALL.put("tail", in -> object("bytes", Text.hex(in.bytes("message")) + Text.hex(Carrier.encodeTail(in.bytes("history")))));
        ALL.put("cut_field", in -> cut(in.bytes("bytes"), Carrier.cutField(in.bytes("bytes"), 0, in.bytes("bytes").length)));
        ALL.put("cut_tail", in -> cut(in.bytes("bytes"), Carrier.cutTail(in.bytes("bytes"), 0, in.bytes("bytes").length)));
        ALL.put("takes_field", Kinds::takesField);
        ALL.put("match", Kinds::match);
        ALL.put("name", Kinds::name);
        ALL.put("carrier", Kinds::carrier);
        ALL.put("call_id", Kinds::callId);
        ALL.put("join", Kinds::join);
        ALL.put("bridge_out", Kinds::bridgeOut);
        ALL.put("bridge_in", Kinds::bridgeIn);
        ALL.put("traceparent", Kinds::traceparent);
        ALL.put("otlp", Kinds::otlp);
        ALL.put("corrupt", Kinds::corrupt);
        ALL.put("counted", Kinds::counted);
        ALL.put("last_value", in -> object("value", in.texts("lines").isEmpty() ? null : Carrier.lastValue(String.join(",", in.texts("lines")))));
    }

    private Kinds() {}

    private static Object failure(WireError e) {
        return object("error", e.code());
    }

    private static Object envelope(Input in) throws TrustSettings.Invalid {
        Receiver receiver = new Receiver(TrustSettings.parse(in.text("trust")));
        long now = in.number("now");
        List<Object> results = new ArrayList<>();
        for (Input attempt : in.list("attempts")) {
            try {
                results.add(Output.envelope(accept(receiver, attempt, now)));
            } catch (WireError e) {
                results.add(failure(e));
            }
        }
        return object("results", results);
    }

    private static Envelope accept(Receiver receiver, Input attempt, long now) throws WireError {
        switch (attempt.text("carrier")) {
            case "grpc": // a field counts alone, whatever the metadata holds
                String last = values(attempt).get(values(attempt).size() - 1);
                return receiver.accept(Text.decodeHex(attempt.has("field") ? attempt.text("field") : last), now, attempt.number("attempt"));
            case "http":
                return receiver.acceptHeader(header(Carrier.lastValue(String.join(",", values(attempt)))), now);
            default:
                return receiver.acceptBridged(header(attempt.text("value")), attempt.id("call"), now);
        }
    }

    /** The values of the request's key, in order: one {@code value}, or {@code values}. */
    private static List<String> values(Input attempt) {
        return attempt.has("values") ? attempt.texts("values") : List.of(attempt.text("value"));
    }

    /** A header value as servers provide it: one character for each byte. */
    private static String header(String text) {
        return new String(text.getBytes(StandardCharsets.UTF_8), StandardCharsets.ISO_8859_1);
    }

    private static Object history(Input in) {
        try {
            History h = History.decode(in.bytes("bytes"));
            return object("call", Text.hex(h.call), "segment", Output.segment(h.segment, h.call));
        } catch (WireError e) {
            return failure(e);
        }
    }

    private static Object cut(byte[] bytes, Carrier.Cut cut) {
        return cut == null
                ? object("message", Text.hex(bytes), "history", null)
                : object("message", Output.hex(bytes, 0, cut.end), "history", Output.hex(bytes, cut.historyFrom, cut.historyTo));
    }

    private static Object takesField(Input in) {
        byte[] history = in.bytes("history");
        return object("takes_field", History.takesField(history, 0, history.length));
    }

    private static Object match(Input in) {
        List<Boolean> matches = new ArrayList<>();
        for (Input pair : in.list("pairs")) {
            Input s = pair.in("selector");
            Selector selector = new Selector(s.text("caller"), s.text("callee"), s.text("call"));
            matches.add(selector.matches(pair.text("caller"), pair.text("peer"), pair.text("name")));
        }
        return object("matches", matches);
    }

    private static Object name(Input in) {
        List<String> names = new ArrayList<>();
        for (Input request : in.list("requests")) {
            names.add(Names.normalizeHttpName(Names.rawHttpName(request.text("method"), request.text("target"))));
        }
        return object("names", names);
    }

    private static Object carrier(Input in) {
        int accept = Accept.NONE;
        for (String carrier : in.texts("accept")) {
            accept |= carrier.equals("tail") ? Accept.TAIL : Accept.FIELD;
        }
        Carrier.Choice choice = Carrier.choose((int) in.number("history_bytes"), in.flag("complete"), accept, in.text("method"),
                in.table("request_headers")::get, (int) in.number("status"), in.table("headers")::get);
        return object("carrier", choice.name().toLowerCase(Locale.ROOT));
    }

    private static Object counted(Input in) {
        byte[] b = Text.decodeHex(in.repeated("parts"));
        int version = in.has("version") ? (int) in.number("version") : History.VERSION;
        Segment.Counted counted = Segment.decodeCounted(version, b, 0, b.length);
        return object("result", counted.tooLarge ? "too_large" : counted.segment == null ? "unreadable" : "counted");
    }

    private static Object callId(Input in) {
        List<String> ids = new ArrayList<>();
        for (long number : in.numbers("numbers")) {
            ids.add(Text.hex(CallId.derive(in.id("parent"), number)));
        }
        return object("ids", ids);
    }

    private static Object join(Input in) {
        PieceJoiner joiner = new PieceJoiner();
        for (String piece : in.texts("pieces")) {
            byte[] b = Text.decodeHex(piece);
            joiner.add(b, 0, b.length);
        }
        byte[] history = joiner.history(in.id("call"));
        return object("history", hexOrNull(history), "complete", history != null && joiner.isComplete());
    }

    private static Object bridgeOut(Input in) {
        Map<String, String> headers = in.table("headers");
        long high = Long.parseUnsignedLong(in.text("trace").substring(0, 16), 16);
        long low = Long.parseUnsignedLong(in.text("trace").substring(16), 16);
        String baggage = headers.remove(Bridge.BAGGAGE);
        Bridge bridge = Bridge.inject(
                headers.get(Bridge.TRACEPARENT), baggage, in.bytes("envelope"), high, low, in.id("call"));
        headers.put(Bridge.TRACEPARENT, bridge.traceparent);
        if (bridge.baggage != null) {
            headers.put(Bridge.BAGGAGE, bridge.baggage);
        }
        return object("headers", headers);
    }

    private static Object bridgeIn(Input in) {
        Map<String, String> headers = in.table("headers");
        String own = headers.get(Envelope.HTTP_HEADER);
        if (own != null) {
            return object("carrier", "own", "envelope", own, "call", null);
        }
        BridgedEnvelope bridged = Bridge.extract(headers.get(Bridge.TRACEPARENT), headers.get(Bridge.BAGGAGE));
        return bridged == null
                ? object("carrier", "none", "envelope", null, "call", null)
                : object("carrier", "baggage", "envelope", bridged.envelope, "call", Text.hex(bridged.call));
    }

    private static Object traceparent(Input in) {
        List<Object> values = new ArrayList<>();
        for (String text : in.texts("values")) {
            Traceparent t = Traceparent.parse(text);
            values.add(t == null ? null : object("trace", Text.hex(t.traceHigh, t.traceLow), "parent", Text.hex(t.parent)));
        }
        return object("values", values);
    }

    private static Object otlp(Input in) {
        try {
            String trace = in.text("trace");
            String json = new OtlpRequest().add(Long.parseUnsignedLong(trace.substring(0, 16), 16),
                    Long.parseUnsignedLong(trace.substring(16), 16), in.flag("has_parent"),
                    History.decode(in.bytes("history"))).json();
            return Json.parse(json);
        } catch (WireError e) {
            return failure(WireError.MALFORMED);
        }
    }

    private static Object corrupt(Input in) {
        byte[] b = in.bytes("bytes");
        Carrier.corruptBody(b, 0, b.length);
        return object("bytes", Text.hex(b));
    }
}

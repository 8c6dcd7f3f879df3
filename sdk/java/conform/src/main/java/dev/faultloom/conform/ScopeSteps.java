package dev.faultloom.conform;

import static dev.faultloom.conform.Output.hexOrNull;
import static dev.faultloom.conform.Output.object;

import dev.faultloom.scope.OutgoingCall;
import dev.faultloom.scope.Process;
import dev.faultloom.scope.Scope;
import dev.faultloom.scope.UnscopedCall;
import dev.faultloom.trust.Receiver;
import dev.faultloom.trust.TrustSettings;
import dev.faultloom.wire.Accept;
import dev.faultloom.wire.Names;
import dev.faultloom.wire.PieceJoiner;
import dev.faultloom.wire.Text;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Runs the steps of one scope, at the times in the input. */
final class ScopeSteps {
    private final Scope scope;
    private final boolean stream;
    private final PieceJoiner joiner = new PieceJoiner();
    private byte[] history;

    private ScopeSteps(Scope scope, boolean stream) {
        this.scope = scope;
        this.stream = stream;
    }

    static Object play(Input in) throws Exception {
        Receiver receiver = new Receiver(TrustSettings.parse(in.text("trust")));
        Process process = new Process(in.text("service"), in.table("peers"), receiver);
        Scope scope = process.beginScope(receiver.accept(in.bytes("envelope"), in.number("now"), 0), in.number("start_us"));
        ScopeSteps steps = new ScopeSteps(scope, in.flag("stream"));
        List<Object> results = new ArrayList<>();
        for (Input step : in.list("steps")) {
            results.add(steps.step(step));
        }
        if (steps.stream) {
            steps.history = steps.joiner.history(scope.envelope().hop.call);
        }
        return object("steps", results, "history", hexOrNull(steps.history));
    }

    private Object step(Input step) {
        long at = step.number("at_us");
        if (step.has("send")) {
            return send(at, step.in("send"));
        }
        if (step.has("reply") || step.has("failed")) {
            Input end = step.in(step.has("reply") ? "reply" : "failed");
            int call = (int) end.number("call");
            if (step.has("reply")) {
                scope.recordReply(at, call, end.number("status"), end.bytes("history"), end.flag("gap"));
            } else {
                scope.recordFailure(at, call, end.number("status"), end.bytes("history"), end.flag("gap"));
            }
            return object();
        }
        if (step.has("connected")) {
            scope.setConnectTime((int) step.in("connected").number("call"), step.in("connected").number("us"));
            return object();
        }
        if (step.has("message")) {
            return piece(scope.nextPiece(step.in("message").number("bytes"), Long.MAX_VALUE));
        }
        if (step.has("unscoped")) {
            List<UnscopedCall> calls = new ArrayList<>();
            for (Input call : step.in("unscoped").list("calls")) {
                calls.add(unscopedCall(call));
            }
            scope.recordUnscoped(at, calls, step.in("unscoped").number("more"));
            return object();
        }
        Input respond = step.in("respond");
        if (stream) {
            return piece(scope.lastPiece(at, respond.number("status"), respond.text("name")));
        }
        history = scope.finish(at, respond.number("status"), respond.text("name"));
        return object();
    }

    private UnscopedCall unscopedCall(Input call) {
        String name = isHttp(call) ? Names.normalizeHttpName(rawName(call)) : rawName(call);
        return new UnscopedCall(isHttp(call), scope.process().peerName(call.text("authority")), name, call.text("site"));
    }

    private static boolean isHttp(Input call) {
        return call.text("protocol").equals("http");
    }

    private static String rawName(Input call) {
        String name = call.text("name");
        int blank = name.indexOf(' ');
        return isHttp(call) ? Names.rawHttpName(name.substring(0, blank), name.substring(blank + 1)) : name;
    }

    private Object piece(byte[] piece) {
        if (piece != null) {
            joiner.add(piece, 0, piece.length);
        }
        return object("piece", hexOrNull(piece));
    }

    private Map<String, Object> send(long at, Input send) {
        boolean http = isHttp(send);
        String peer = scope.process().peerName(send.text("authority"));
        int accept = http ? Accept.TAIL : Accept.FIELD;
        int limit = http ? 0 : 4 << 20;
        OutgoingCall call = send.flag("inherited")
                ? scope.beginInheritedCall(at, http, peer, rawName(send), accept, limit)
                : scope.beginCall(at, http, peer, rawName(send), accept, limit);
        return object("call", call.number, "id", Text.hex(call.id), "fault", call.fault == null ? null : call.faultIndex, "kind",
                call.fault == null ? null : call.fault.kind.text(), "envelope", hexOrNull(call.envelope));
    }
}

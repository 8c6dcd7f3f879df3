package dev.faultloom.conform;

import static dev.faultloom.conform.Output.hexOrNull;
import static dev.faultloom.conform.Output.object;

import dev.faultloom.scope.OutgoingCall;
import dev.faultloom.scope.Process;
import dev.faultloom.scope.Scope;
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
        if (step.has("message")) {
            return piece(scope.nextPiece(step.in("message").number("bytes"), Long.MAX_VALUE));
        }
        Input respond = step.in("respond");
        if (stream) {
            return piece(scope.lastPiece(at, respond.number("status"), respond.text("name")));
        }
        history = scope.finish(at, respond.number("status"), respond.text("name"));
        return object();
    }

    private Object piece(byte[] piece) {
        if (piece != null) {
            joiner.add(piece, 0, piece.length);
        }
        return object("piece", hexOrNull(piece));
    }

    private Map<String, Object> send(long at, Input send) {
        boolean http = send.text("protocol").equals("http");
        String name = send.text("name");
        if (http) {
            int blank = name.indexOf(' ');
            name = Names.rawHttpName(name.substring(0, blank), name.substring(blank + 1));
        }
        OutgoingCall call = scope.beginCall(at, http, scope.process().peerName(send.text("authority")), name, http ? Accept.TAIL : Accept.FIELD,
                http ? 0 : 4 << 20);
        return object("call", call.number, "id", Text.hex(call.id), "fault", call.fault == null ? null : call.faultIndex, "kind",
                call.fault == null ? null : call.fault.kind.text(), "envelope", hexOrNull(call.envelope));
    }
}

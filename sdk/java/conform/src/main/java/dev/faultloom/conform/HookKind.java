package dev.faultloom.conform;

import static dev.faultloom.conform.Output.object;
import static dev.faultloom.conform.Output.unsigned;

import dev.faultloom.hooks.faults.CallEnd;
import dev.faultloom.hooks.faults.CallResult;
import dev.faultloom.hooks.faults.FaultEffect;
import dev.faultloom.hooks.faults.Faults;
import dev.faultloom.hooks.faults.Protocol;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;

/** Vectors of kind {@code hook}: the effect of a fault on one call. */
final class HookKind {
    private HookKind() {}

    static Object result(Input in) {
        Protocol protocol = in.text("protocol").equals("http") ? Protocol.HTTP : Protocol.GRPC;
        Fault fault = in.has("fault") ? fault(in.in("fault")) : null;
        long timeoutMs = in.has("timeout_ms") ? in.number("timeout_ms") : Faults.NO_TIMEOUT;
        FaultEffect effect = Faults.faultEffect(protocol, fault, timeoutMs);
        Input called = in.in("result");
        CallEnd end = effect.sends ? Faults.replyEffect(protocol, fault, callResult(called)) : effect.end;
        boolean hasHistory = effect.sends && called.flag("history");
        return object("sent", effect.sends, "wait_ms", unsigned(effect.waitMs),
                "caller", object("outcome", end.outcome.text(), "status", unsigned(end.status)),
                "event", object("kind", end.isReply ? "reply" : "call-failed", "status", unsigned(end.recordedStatus),
                        "history", hasHistory, "gap", end.isGap));
    }

    private static Fault fault(Input fault) {
        return Fault.of(FaultKind.of(fault.text("kind"))).arg(fault.number("arg"));
    }

    private static CallResult callResult(Input result) {
        return result.has("failed")
                ? CallResult.failure(result.number("failed"), result.flag("history"))
                : CallResult.reply(result.number("status"), result.flag("history"));
    }
}

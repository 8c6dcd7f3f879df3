package dev.faultloom.hooks.faults;

import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import dev.faultloom.wire.GrpcCode;
import java.util.concurrent.TimeUnit;

/** The effect of each kind of fault, as in {@code docs/formats/messages.md}, "Deciding about a send". */
public final class Faults {
    /** The longest delay or hang, even if the plan demands a longer one. */
    public static final int MAX_WAIT_MS = 30_000;
    /** The caller waits without a limit of its own. */
    public static final long NO_TIMEOUT = -1;

    private static final FaultEffect REFUSE = FaultEffect.unsent(CallEnd.failure(Outcome.REFUSED, GrpcCode.UNAVAILABLE, false));
    private static final FaultEffect RESET = FaultEffect.unsent(CallEnd.failure(Outcome.RESET, GrpcCode.UNAVAILABLE, false));
    private static final CallEnd TIMEOUT = CallEnd.failure(Outcome.DEADLINE, GrpcCode.DEADLINE_EXCEEDED, false);

    private Faults() {}

    /**
     * The effect of a fault on a call before its reply.
     *
     * @param fault null: none
     * @param timeoutMs how long the caller waits at most, or {@link #NO_TIMEOUT}
     */
    public static FaultEffect faultEffect(Protocol protocol, Fault fault, long timeoutMs) {
        if (fault == null) {
            return FaultEffect.NONE;
        }
        switch (fault.kind) {
            case UNAVAILABLE:
                return REFUSE;
            case RESET:
                return RESET;
            case DEADLINE:
                return FaultEffect.unsent(TIMEOUT);
            case STATUS:
                return FaultEffect.unsent(CallEnd.reply(Outcome.STATUS, visibleStatus(protocol, fault.arg), fault.arg, false));
            case DELAY:
            case HANG:
                return wait(fault, timeoutMs);
            case LOST_REPLY:
                return FaultEffect.onReply(Outcome.LOST);
            case EMPTY_REPLY:
                return FaultEffect.onReply(Outcome.EMPTY);
            default:
                return FaultEffect.onReply(Outcome.CORRUPT);
        }
    }

    private static FaultEffect wait(Fault fault, long timeoutMs) {
        boolean isHang = fault.kind == FaultKind.HANG;
        boolean isUnset = isHang && fault.arg == 0;
        boolean isCapped = isUnset || Long.compareUnsigned(fault.arg, MAX_WAIT_MS) > 0;
        int planned = isCapped ? MAX_WAIT_MS : (int) fault.arg;
        // at the same moment, the caller's own limit wins
        boolean timesOut = timeoutMs != NO_TIMEOUT && timeoutMs <= planned;
        return FaultEffect.delayed(timesOut ? (int) timeoutMs : planned, isHang || timesOut ? TIMEOUT : null, !isHang);
    }

    /**
     * The status that reaches the caller. One that the protocol does not have arrives as UNKNOWN (gRPC) or 500 (HTTP).
     */
    private static long visibleStatus(Protocol protocol, long status) {
        if (protocol == Protocol.GRPC) {
            return status >= 1 && status <= GrpcCode.MAX ? status : GrpcCode.UNKNOWN;
        }
        return status >= 200 && status <= 999 ? status : 500;
    }

    /** How a call ends that was sent under this fault (null: none) and really ended with {@code result}. */
    public static CallEnd replyEffect(Protocol protocol, Fault fault, CallResult result) {
        boolean isGap = !result.hasHistory;
        if (!result.isReply) {
            return CallEnd.failure(Outcome.FAILED, result.status, isGap);
        }
        // an unsuccessful gRPC reply has no message to change
        boolean hasBody = protocol == Protocol.HTTP || result.status == 0;
        FaultKind kind = fault == null ? null : fault.kind;
        if (kind == FaultKind.LOST_REPLY) {
            return CallEnd.failure(Outcome.RESET, GrpcCode.UNAVAILABLE, isGap);
        }
        if (kind == FaultKind.EMPTY_REPLY && hasBody) {
            return CallEnd.reply(Outcome.EMPTY, result.status, result.status, isGap);
        }
        if (kind == FaultKind.CORRUPT_REPLY && hasBody) {
            long status = protocol == Protocol.GRPC ? GrpcCode.INTERNAL : result.status;
            return CallEnd.reply(Outcome.CORRUPT, status, result.status, isGap);
        }
        return CallEnd.reply(Outcome.REPLY, result.status, result.status, isGap);
    }

    /**
     * Changes {@code length} bytes of a reply's body or message as {@code outcome} demands, in place.
     *
     * @return how many bytes remain
     */
    public static int changeBody(Outcome outcome, byte[] body, int length) {
        if (outcome == Outcome.EMPTY) {
            return 0;
        }
        if (outcome == Outcome.CORRUPT) {
            Carrier.corruptBody(body, 0, length);
        }
        return length;
    }

    /** A limit in nanoseconds (Long.MAX_VALUE: none) as a timeout in ms, rounded up. */
    public static long timeoutMs(long nanos) {
        if (nanos == Long.MAX_VALUE) {
            return NO_TIMEOUT;
        }
        return nanos <= 0 ? 0 : TimeUnit.NANOSECONDS.toMillis(nanos - 1) + 1;
    }
}

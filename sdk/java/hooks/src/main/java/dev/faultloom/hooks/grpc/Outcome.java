package dev.faultloom.hooks.grpc;

import dev.faultloom.wire.Fault;
import dev.faultloom.wire.Kind;
import io.grpc.Status;
import java.io.IOException;
import java.net.ConnectException;

/** What a fault that decides a call makes the caller see, worded as grpc-java words the real thing. */
final class Outcome {
    private Outcome() {}

    static Status of(Fault fault, String authority) {
        switch (fault.kind) {
            case UNAVAILABLE:
                return Status.UNAVAILABLE.withDescription("io exception")
                        .withCause(new ConnectException("Connection refused: " + authority));
            case RESET:
                return Status.UNAVAILABLE.withDescription("io exception").withCause(new IOException("Connection reset by peer"));
            case LOST_REPLY:
                return Status.UNAVAILABLE.withDescription("Network closed for unknown reason");
            case STATUS:
                return status(fault.arg);
            default:
                return Status.DEADLINE_EXCEEDED.withDescription("deadline exceeded");
        }
    }

    /** A number that is no error arrives as UNKNOWN. */
    private static Status status(long number) {
        boolean known = number > 0 && number <= Status.Code.UNAUTHENTICATED.value();
        return Status.fromCodeValue(known ? (int) number : Status.Code.UNKNOWN.value()).withDescription("status " + number + " injected by Faultloom");
    }

    /** Whether this status can only have been found out on this side, if nothing came from the other. */
    static boolean decides(Kind kind) {
        return kind == Kind.UNAVAILABLE || kind == Kind.RESET || kind == Kind.STATUS || kind == Kind.DEADLINE;
    }
}

package dev.faultloom.hooks.grpc;

import dev.faultloom.hooks.faults.CallEnd;
import io.grpc.Status;
import java.io.IOException;
import java.net.ConnectException;

/** Maps how a fault ends a call to the status that grpc-java reports for the real failure. */
final class FaultStatus {
    /** The status of a call whose reply a fault loses. */
    static final Status LOST_REPLY = Status.UNAVAILABLE.withDescription("Network closed for unknown reason");

    private FaultStatus() {}

    /** The status of a call that is not sent. */
    static Status of(CallEnd end, String authority) {
        switch (end.outcome) {
            case REFUSED:
                return Status.UNAVAILABLE.withDescription("io exception")
                        .withCause(new ConnectException("Connection refused: " + authority));
            case RESET:
                return Status.UNAVAILABLE.withDescription("io exception").withCause(new IOException("Connection reset by peer"));
            case STATUS:
                return Status.fromCodeValue((int) end.status)
                        .withDescription("status " + end.recordedStatus + " injected by Faultloom");
            default:
                return Status.DEADLINE_EXCEEDED.withDescription("deadline exceeded");
        }
    }
}

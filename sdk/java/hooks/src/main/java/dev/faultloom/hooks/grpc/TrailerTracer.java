package dev.faultloom.hooks.grpc;

import io.grpc.ClientStreamTracer;
import io.grpc.Metadata;

/** Detects whether the callee ended a call. The status alone does not distinguish this from a failure on this side. */
final class TrailerTracer extends ClientStreamTracer.Factory {
    private volatile boolean receivedTrailers;

    boolean receivedTrailers() {
        return receivedTrailers;
    }

    @Override
    public ClientStreamTracer newClientStreamTracer(ClientStreamTracer.StreamInfo info, Metadata headers) {
        receivedTrailers = false; // a retry of the library
        return new ClientStreamTracer() {
            @Override
            public void inboundTrailers(Metadata trailers) {
                receivedTrailers = true;
            }
        };
    }
}

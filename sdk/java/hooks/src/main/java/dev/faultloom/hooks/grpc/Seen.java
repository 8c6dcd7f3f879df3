package dev.faultloom.hooks.grpc;

import io.grpc.ClientStreamTracer;
import io.grpc.Metadata;

/** Tells whether a call's end came from the other side or was found out here: the status alone does not. */
final class Seen extends ClientStreamTracer.Factory {
    private volatile boolean answered;

    boolean answered() {
        return answered;
    }

    @Override
    public ClientStreamTracer newClientStreamTracer(ClientStreamTracer.StreamInfo info, Metadata headers) {
        answered = false; // the library's own retry
        return new ClientStreamTracer() {
            @Override
            public void inboundTrailers(Metadata trailers) {
                answered = true;
            }
        };
    }
}

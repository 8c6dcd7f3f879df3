package dev.faultloom.scope;

import dev.faultloom.wire.Headers;

/** See {@link IncomingRequest#grpc} and {@link IncomingRequest#grpcField}. */
final class GrpcRequest implements IncomingRequest {
    private final Carrier carrier;
    private final byte[] envelope;
    private final Headers metadata;

    GrpcRequest(Carrier carrier, byte[] envelope, Headers metadata) {
        this.carrier = carrier;
        this.envelope = envelope;
        this.metadata = metadata;
    }

    @Override
    public String get(String name) {
        return metadata.get(name);
    }

    @Override
    public Carrier carrier() {
        return carrier;
    }

    @Override
    public byte[] grpcEnvelope() {
        return envelope;
    }
}

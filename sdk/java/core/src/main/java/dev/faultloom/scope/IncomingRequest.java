package dev.faultloom.scope;

import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Headers;

/** A request that a server received, as far as {@link Process#openScope} needs it. */
public final class IncomingRequest {
    /** Where the envelope of a request is carried. */
    enum Carrier { GRPC_METADATA, GRPC_FIELD, HTTP_HEADER }

    final Carrier carrier;
    final byte[] envelope; // gRPC, or null
    final Headers headers;

    private IncomingRequest(Carrier carrier, byte[] envelope, Headers headers) {
        this.carrier = carrier;
        this.envelope = envelope;
        this.headers = headers;
    }

    /**
     * A gRPC request.
     *
     * @param envelope the last value of {@code x-faultloom-bin}, or null; kept
     * @param metadata the other metadata
     */
    public static IncomingRequest grpc(byte[] envelope, Headers metadata) {
        return new IncomingRequest(Carrier.GRPC_METADATA, envelope, metadata);
    }

    /** A gRPC request whose message carries this envelope, which is kept. */
    public static IncomingRequest grpcField(byte[] envelope, Headers metadata) {
        return new IncomingRequest(Carrier.GRPC_FIELD, envelope, metadata);
    }

    /** An HTTP request. */
    public static IncomingRequest http(Headers headers) {
        return new IncomingRequest(Carrier.HTTP_HEADER, null, headers);
    }

    /** The envelope's header text, or null. */
    String envelopeHeader() {
        return headers.get(Envelope.HTTP_HEADER);
    }
}

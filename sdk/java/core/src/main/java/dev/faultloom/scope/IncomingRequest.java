package dev.faultloom.scope;

import dev.faultloom.wire.Headers;

/**
 * A request that a server received, as far as {@link Process#openScope} needs it. A lambda that looks up headers is an
 * HTTP request: most requests are not traced, and must not cost further objects.
 */
@FunctionalInterface
public interface IncomingRequest extends Headers {
    /** Where the envelope of a request is carried. */
    enum Carrier { HTTP_HEADER, GRPC_METADATA, GRPC_FIELD }

    /** The carrier to search for an envelope. */
    default Carrier carrier() {
        return Carrier.HTTP_HEADER;
    }

    /** The envelope of a gRPC request, or null. */
    default byte[] grpcEnvelope() {
        return null;
    }

    /**
     * A gRPC request.
     *
     * @param envelope the last value of {@code x-faultloom-bin}, or null; kept
     * @param metadata the other metadata
     */
    static IncomingRequest grpc(byte[] envelope, Headers metadata) {
        return new GrpcRequest(Carrier.GRPC_METADATA, envelope, metadata);
    }

    /** A gRPC request whose message carries this envelope, which is kept. */
    static IncomingRequest grpcField(byte[] envelope, Headers metadata) {
        return new GrpcRequest(Carrier.GRPC_FIELD, envelope, metadata);
    }
}

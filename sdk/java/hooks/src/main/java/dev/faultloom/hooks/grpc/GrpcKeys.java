package dev.faultloom.hooks.grpc;

import dev.faultloom.wire.Bridge;
import dev.faultloom.wire.Envelope;
import io.grpc.Metadata;

/** Our keys in grpc-java's metadata. */
final class GrpcKeys {
    /** The envelope in a request, the history in a reply's trailer. */
    static final Metadata.Key<byte[]> CARRIER = Metadata.Key.of(Envelope.GRPC_KEY, Metadata.BINARY_BYTE_MARSHALLER);
    static final Metadata.Key<String> TRACEPARENT = text(Bridge.TRACEPARENT);
    static final Metadata.Key<String> BAGGAGE = text(Bridge.BAGGAGE);

    private GrpcKeys() {}

    /** The key with this name. Common keys are constants, because creating a key costs more than a lookup. */
    static Metadata.Key<String> named(String name) {
        switch (name) {
            case Bridge.TRACEPARENT:
                return TRACEPARENT;
            case Bridge.BAGGAGE:
                return BAGGAGE;
            default:
                return text(name);
        }
    }

    private static Metadata.Key<String> text(String name) {
        return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
    }

    /** All values of a key, joined with commas as in HTTP; or null. */
    static String joinedValues(Metadata metadata, Metadata.Key<String> key) {
        Iterable<String> values = metadata.getAll(key);
        return values == null ? null : String.join(",", values);
    }
}

package dev.faultloom.hooks.grpc;

import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.MessageLite;
import dev.faultloom.wire.Carrier;
import io.grpc.MethodDescriptor.Marshaller;
import io.grpc.Status;
import java.io.IOException;
import java.io.InputStream;

/**
 * Serializes the request of one call and appends the envelope in a field, if set. Retries of the library serialize it
 * again.
 */
final class RequestMarshaller<Q> implements Marshaller<Q> {
    private final Marshaller<Q> library;
    private byte[] envelope;

    RequestMarshaller(Marshaller<Q> library) {
        this.library = library;
    }

    /** Whether the field may be appended to this message. */
    boolean hasRoom(Q message) {
        return message instanceof MessageLite && ((MessageLite) message).getSerializedSize() <= Carrier.MAX_REQUEST_BYTES;
    }

    void setEnvelope(byte[] newEnvelope) {
        envelope = newEnvelope;
    }

    @Override
    public InputStream stream(Q value) {
        if (envelope == null) {
            return library.stream(value);
        }
        // serialized now: an in-process callee would take the message object from the library's stream, without the
        // field
        MessageLite message = (MessageLite) value;
        int size = message.getSerializedSize();
        byte[] bytes = new byte[size + Carrier.fieldLength(envelope.length)];
        try {
            message.writeTo(CodedOutputStream.newInstance(bytes, 0, size));
        } catch (IOException e) {
            throw Status.INTERNAL.withDescription("Writing the request failed").withCause(e).asRuntimeException();
        }
        Carrier.encodeField(bytes, size, envelope);
        return new MessageStream(bytes, bytes.length);
    }

    @Override
    public Q parse(InputStream in) {
        return library.parse(in);
    }
}

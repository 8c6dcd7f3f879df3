package dev.faultloom.hooks.grpc;

import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.MessageLite;
import dev.faultloom.wire.Carrier;
import io.grpc.MethodDescriptor.Marshaller;
import io.grpc.Status;
import java.io.IOException;
import java.io.InputStream;

/** Writes the request of one call, with the envelope in a field behind it if there is one. The library's retries write it again. */
final class RequestMarshaller<Q> implements Marshaller<Q> {
    private final Marshaller<Q> library;
    private byte[] envelope;

    RequestMarshaller(Marshaller<Q> library) {
        this.library = library;
    }

    /** Whether a message can take an envelope along. */
    boolean hasRoom(Q message) {
        return message instanceof MessageLite && ((MessageLite) message).getSerializedSize() <= Carrier.MAX_REQUEST_BYTES;
    }

    void append(byte[] own) {
        envelope = own;
    }

    @Override
    public InputStream stream(Q value) {
        if (envelope == null) {
            return library.stream(value);
        }
        // bytes at once: an in-process callee would take the message out of the library's stream, and no field with it
        MessageLite message = (MessageLite) value;
        int size = message.getSerializedSize();
        byte[] bytes = new byte[size + Carrier.fieldLength(envelope.length)];
        try {
            message.writeTo(CodedOutputStream.newInstance(bytes, 0, size));
        } catch (IOException e) {
            throw Status.INTERNAL.withDescription("Writing the request failed").withCause(e).asRuntimeException();
        }
        Carrier.field(bytes, size, envelope);
        return new Bytes(bytes, bytes.length);
    }

    @Override
    public Q parse(InputStream in) {
        return library.parse(in);
    }
}

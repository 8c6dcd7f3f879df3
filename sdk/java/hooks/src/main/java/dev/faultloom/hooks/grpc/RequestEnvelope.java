package dev.faultloom.hooks.grpc;

import com.google.protobuf.AbstractMessage;
import com.google.protobuf.ByteString;
import com.google.protobuf.Message;
import com.google.protobuf.UnknownFieldSet;
import dev.faultloom.wire.Carrier;
import io.grpc.MethodDescriptor.Marshaller;
import java.util.List;
import java.util.Map;

/**
 * An envelope from a field of a request's message, and the message without it. The server does not expose the
 * serialized request, but the protobuf parser keeps unknown fields, from which the envelope is removed before the
 * application receives the message.
 */
final class RequestEnvelope<Q> {
    private static final boolean HAS_FULL_RUNTIME = isPresent("com.google.protobuf.UnknownFieldSet");

    /** The message without the field. */
    final Q message;
    final byte[] envelope;

    private RequestEnvelope(Q message, byte[] envelope) {
        this.message = message;
        this.envelope = envelope;
    }

    /** The lite runtime lacks this class and does not expose unknown fields. */
    private static boolean isPresent(String name) {
        try {
            Class.forName(name, false, RequestEnvelope.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException | LinkageError e) {
            return false;
        }
    }

    /** Whether fields can be read in messages that this marshaller parses, provided they are full messages. */
    static boolean isReadable(Marshaller<?> marshaller) {
        return HAS_FULL_RUNTIME && FieldAppender.isLibraryMarshaller(marshaller);
    }

    /**
     * Whether a field in a message of this type is found. Hot path: the check uses the base class of all full messages
     * and not their interface, because a JVM searches the interfaces of a class each time when checks for several
     * interfaces alternate.
     */
    static boolean isReadable(Object message) {
        return message instanceof AbstractMessage;
    }

    /** Extracts the envelope of a message; null: it has none. */
    static <Q> RequestEnvelope<Q> of(Q message) {
        if (!isReadable(message)) {
            return null;
        }
        UnknownFieldSet unknown = ((AbstractMessage) message).getUnknownFields();
        if (unknown == UnknownFieldSet.getDefaultInstance() || !unknown.hasField(Carrier.FIELD_NUMBER)) {
            return null;
        }
        byte[] envelope = envelope(unknown.getField(Carrier.FIELD_NUMBER).getLengthDelimitedList());
        return envelope == null ? null : new RequestEnvelope<>(withoutField(message, unknown), envelope);
    }

    /** The last value counts. */
    private static byte[] envelope(List<ByteString> values) {
        ByteString value = values.isEmpty() ? ByteString.EMPTY : values.get(values.size() - 1);
        int length = value.size() - Carrier.FOOTER_BYTES;
        if (length < 0 || value.substring(length).asReadOnlyByteBuffer().getLong() != Carrier.footer(length)) {
            return null;
        }
        return value.substring(0, length).toByteArray();
    }

    @SuppressWarnings("unchecked") // a message's builder builds the same type
    private static <Q> Q withoutField(Q message, UnknownFieldSet unknown) {
        UnknownFieldSet rest = UnknownFieldSet.getDefaultInstance();
        Map<Integer, UnknownFieldSet.Field> all = unknown.asMap();
        if (all.size() > 1) {
            UnknownFieldSet.Builder others = UnknownFieldSet.newBuilder();
            all.forEach((number, field) -> {
                if (number != Carrier.FIELD_NUMBER) {
                    others.addField(number, field);
                }
            });
            rest = others.build();
        }
        return (Q) ((Message) message).toBuilder().setUnknownFields(rest).buildPartial();
    }
}

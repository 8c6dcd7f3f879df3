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
 * A request's message that brought an envelope. Only the library's server knows the bytes of a request; its parser keeps what
 * it does not know, so the field is taken from there before anybody else sees the message.
 */
final class Arrived<Q> {
    private static final boolean FULL = isThere("com.google.protobuf.UnknownFieldSet");

    /** Without the field. */
    final Q message;
    final byte[] envelope;

    private Arrived(Q message, byte[] envelope) {
        this.message = message;
        this.envelope = envelope;
    }

    /** The lite runtime has no such class, and lets nobody see what it keeps. */
    private static boolean isThere(String name) {
        try {
            Class.forName(name, false, Arrived.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException | LinkageError e) {
            return false;
        }
    }

    /** Whether a field would be found in what this marshaller reads, if it reads full messages. */
    static boolean possible(Marshaller<?> marshaller) {
        return FULL && Appended.isLibrary(marshaller);
    }

    /**
     * Whether a field in a message of this kind is found. The class is asked for and not the interface, which every message of
     * the full runtime has by it: a JVM that is asked about several interfaces in turn searches all that a message has, each time.
     */
    static boolean possible(Object message) {
        return message instanceof AbstractMessage;
    }

    /** What such a message brought, or null: no envelope. */
    static <Q> Arrived<Q> of(Q message) {
        if (!possible(message)) {
            return null;
        }
        UnknownFieldSet unknown = ((AbstractMessage) message).getUnknownFields();
        if (unknown == UnknownFieldSet.getDefaultInstance() || !unknown.hasField(Carrier.FIELD_NUMBER)) {
            return null;
        }
        byte[] envelope = envelope(unknown.getField(Carrier.FIELD_NUMBER).getLengthDelimitedList());
        return envelope == null ? null : new Arrived<>(without(message, unknown), envelope);
    }

    /** The last one counts. */
    private static byte[] envelope(List<ByteString> values) {
        ByteString value = values.isEmpty() ? ByteString.EMPTY : values.get(values.size() - 1);
        int length = value.size() - Carrier.ENDING_BYTES;
        if (length < 0 || value.substring(length).asReadOnlyByteBuffer().getLong() != Carrier.ending(length)) {
            return null;
        }
        return value.substring(0, length).toByteArray();
    }

    @SuppressWarnings("unchecked") // the builder of a message builds its like
    private static <Q> Q without(Q message, UnknownFieldSet unknown) {
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

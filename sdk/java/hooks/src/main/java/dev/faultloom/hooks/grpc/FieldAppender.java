package dev.faultloom.hooks.grpc;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.MessageLite;
import com.google.protobuf.Parser;
import io.grpc.MethodDescriptor;
import io.grpc.ServerCall;
import java.io.IOException;
import java.io.OutputStream;

/**
 * A message with our field appended, for the library's marshaller. The application's message is not modified, because
 * it may be shared.
 */
final class FieldAppender implements MessageLite {
    private static final String LIBRARY_CALL = "io.grpc.internal.ServerCallImpl";
    private static final String OTHER_AGENT = "io.opentelemetry.";
    private static final String LIBRARY_MARSHALLER = "io.grpc.protobuf.lite.ProtoLiteUtils$MessageMarshaller";

    private static volatile Class<?> libraryMarshaller; // null: not found yet

    private final MessageLite message;
    private final byte[] field;

    private FieldAppender(MessageLite message, byte[] field) {
        this.message = message;
        this.field = field;
    }

    /**
     * Whether messages of this call may be wrapped: only the library handles them after us, and its own marshaller
     * serializes them.
     */
    static boolean canAppend(ServerCall<?, ?> call, MethodDescriptor<?, ?> method) {
        return isDirect(call) && isLibraryMarshaller(method.getResponseMarshaller());
    }

    /**
     * Whether no interceptor is between us and the library, except those of OpenTelemetry, which do not touch messages.
     */
    static boolean isDirect(ServerCall<?, ?> call) {
        String outer = call.getClass().getName();
        return outer.equals(LIBRARY_CALL) || outer.startsWith(OTHER_AGENT);
    }

    /** Whether this is the library's own marshaller of protobuf messages. */
    static boolean isLibraryMarshaller(MethodDescriptor.Marshaller<?> marshaller) {
        Class<?> type = marshaller.getClass();
        if (type == libraryMarshaller) {
            return true; // hot path: compare classes, not names
        }
        if (!type.getName().equals(LIBRARY_MARSHALLER)) {
            return false;
        }
        libraryMarshaller = type;
        return true;
    }

    /** The length of a message in bytes, or -1: not a protobuf message. */
    static int length(Object message) {
        return message instanceof MessageLite ? ((MessageLite) message).getSerializedSize() : -1;
    }

    @SuppressWarnings("unchecked") // the marshaller accepts any MessageLite
    static <R> R append(R message, byte[] field) {
        return (R) new FieldAppender((MessageLite) message, field);
    }

    @Override
    public int getSerializedSize() {
        return message.getSerializedSize() + field.length;
    }

    @Override
    public void writeTo(CodedOutputStream out) throws IOException {
        message.writeTo(out);
        out.writeRawBytes(field);
    }

    @Override
    public void writeTo(OutputStream out) throws IOException {
        message.writeTo(out);
        out.write(field);
    }

    @Override
    public void writeDelimitedTo(OutputStream out) throws IOException {
        CodedOutputStream coded = CodedOutputStream.newInstance(out);
        coded.writeUInt32NoTag(getSerializedSize());
        writeTo(coded);
        coded.flush();
    }

    @Override
    public byte[] toByteArray() {
        byte[] bytes = new byte[getSerializedSize()];
        CodedOutputStream out = CodedOutputStream.newInstance(bytes);
        try {
            writeTo(out);
        } catch (IOException e) {
            throw new IllegalStateException(e); // impossible: the array has the computed size
        }
        return bytes;
    }

    @Override
    public ByteString toByteString() {
        return ByteString.copyFrom(toByteArray());
    }

    @Override
    public Builder newBuilderForType() {
        return message.newBuilderForType();
    }

    @Override
    public Builder toBuilder() {
        return message.toBuilder();
    }

    @Override
    public Parser<? extends MessageLite> getParserForType() {
        return message.getParserForType();
    }

    @Override
    public boolean isInitialized() {
        return message.isInitialized();
    }

    @Override
    public MessageLite getDefaultInstanceForType() {
        return message.getDefaultInstanceForType();
    }
}

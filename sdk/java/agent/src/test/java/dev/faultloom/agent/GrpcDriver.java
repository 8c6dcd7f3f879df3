package dev.faultloom.agent;

import com.google.protobuf.StringValue;
import dev.faultloom.wire.Accept;
import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.History;
import dev.faultloom.wire.Piece;
import dev.faultloom.wire.Segment;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Sends gRPC requests like the tool and decodes the bytes of replies. This process has no hooks. */
final class GrpcDriver implements AutoCloseable {
    private static final Metadata.Key<byte[]> CARRIER = Metadata.Key.of(Envelope.GRPC_KEY, Metadata.BINARY_BYTE_MARSHALLER);

    private final ManagedChannel channel;

    /** A reply. */
    static final class Reply {
        Status status;
        Metadata trailers;
        byte[] message;
        /** The history from a field of the message and from the trailer, or null. */
        byte[] field;
        byte[] trailer;
        Segment segment;

        String text() throws IOException {
            return StringValue.parseFrom(message).getValue();
        }
    }

    GrpcDriver(String address) {
        channel = NettyChannelBuilder.forTarget(address).usePlaintext().maxInboundMessageSize(64 << 20).build();
    }

    /** Sends a request with an envelope and these faults. */
    Reply send(String method, String text, Fault... faults) throws Exception {
        Envelope envelope = Requests.begin(faults);
        return send(method, text, Requests.bytes(envelope, Accept.FIELD, 4 << 20), envelope.hop.call);
    }

    /** Sends a request without an envelope. */
    Reply plain(String method, String text) throws Exception {
        return send(method, text, null, 0);
    }

    /** Sends a request with this envelope in metadata. */
    Reply send(String method, String text, byte[] envelope, long call) throws Exception {
        return send(method, text, envelope, null, call);
    }

    /** Sends a request with these envelopes (or null) in metadata and in a field. */
    Reply send(String method, String text, byte[] envelope, byte[] inField, long call) throws Exception {
        byte[] message = StringValue.of(text).toByteArray();
        return send(method, MethodType.UNARY, inField == null ? message : join(message, Carrier.encodeField(inField)), envelope, call);
    }

    static byte[] join(byte[] a, byte[] b) {
        byte[] all = Arrays.copyOf(a, a.length + b.length);
        System.arraycopy(b, 0, all, a.length, b.length);
        return all;
    }

    /** Sends a request of this type with these bytes and this envelope (or null) in metadata. */
    Reply send(String method, MethodType type, byte[] message, byte[] envelope, long call) throws Exception {
        MethodDescriptor<byte[], byte[]> descriptor = MethodDescriptor.<byte[], byte[]>newBuilder()
                .setType(type)
                .setFullMethodName("t.T/" + method)
                .setRequestMarshaller(Raw.INSTANCE)
                .setResponseMarshaller(Raw.INSTANCE)
                .build();
        ClientCall<byte[], byte[]> started = channel.newCall(descriptor, CallOptions.DEFAULT.withDeadlineAfter(60, TimeUnit.SECONDS));
        Metadata headers = new Metadata();
        if (envelope != null) {
            headers.put(CARRIER, envelope);
        }
        Reply reply = new Reply();
        CompletableFuture<Reply> done = new CompletableFuture<>();
        started.start(new ClientCall.Listener<>() {
            @Override
            public void onMessage(byte[] message) {
                reply.message = message;
            }

            @Override
            public void onClose(Status status, Metadata trailers) {
                reply.status = status;
                reply.trailers = trailers;
                done.complete(reply);
            }
        }, headers);
        started.request(2);
        started.sendMessage(message);
        started.halfClose();
        wait(done);
        reply.trailer = reply.trailers.get(CARRIER);
        if (reply.message != null) {
            Carrier.Cut cut = Carrier.cutField(reply.message, 0, reply.message.length);
            if (cut != null) {
                reply.field = Arrays.copyOfRange(reply.message, cut.historyFrom, cut.historyTo);
                reply.message = Arrays.copyOf(reply.message, cut.end);
            }
        }
        byte[] history = reply.field != null ? reply.field : reply.trailer;
        if (history != null && !Piece.isPiece(history, 0, history.length)) {
            History decoded = History.decode(history);
            if (decoded.call != call) {
                throw new AssertionError("the history belongs to another call");
            }
            reply.segment = decoded.segment;
        }
        return reply;
    }

    private static void wait(CompletableFuture<Reply> done) throws InterruptedException, ExecutionException, TimeoutException {
        done.get(65, TimeUnit.SECONDS);
    }

    @Override
    public void close() {
        channel.shutdownNow();
    }

    enum Raw implements MethodDescriptor.Marshaller<byte[]> {
        INSTANCE;

        @Override
        public InputStream stream(byte[] value) {
            return new ByteArrayInputStream(value);
        }

        @Override
        public byte[] parse(InputStream in) {
            try {
                return in.readAllBytes();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}

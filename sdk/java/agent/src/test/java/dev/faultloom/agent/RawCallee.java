package dev.faultloom.agent;

import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Envelope;
import io.grpc.HandlerRegistry;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerMethodDefinition;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** A server without the SDK. It exposes requests as bytes, and the test provides the replies. */
final class RawCallee implements AutoCloseable {
    static final Metadata.Key<byte[]> CARRIER = Metadata.Key.of(Envelope.GRPC_KEY, Metadata.BINARY_BYTE_MARSHALLER);

    /** The first message of a request. */
    static final class Request {
        private final ServerCall<byte[], byte[]> call;
        final byte[] metadata;
        /** The envelope in a field of the message, or null. */
        final byte[] field;
        final byte[] message;

        Request(ServerCall<byte[], byte[]> call, Metadata headers, byte[] bytes) {
            this.call = call;
            metadata = headers.get(CARRIER);
            Carrier.Cut cut = Carrier.cutField(bytes, 0, bytes.length);
            field = cut == null ? null : Arrays.copyOfRange(bytes, cut.historyFrom, cut.historyTo);
            message = cut == null ? bytes : Arrays.copyOf(bytes, cut.end);
        }

        /** The carrier of the envelope. */
        String carrier() {
            return metadata == null ? field == null ? "none" : "field" : field == null ? "metadata" : "both";
        }

        byte[] envelope() {
            return field != null ? field : metadata;
        }

        /** Replies with the request's message and this history, or null. */
        void reply(byte[] history) {
            call.sendHeaders(new Metadata());
            byte[] field = history == null ? new byte[0] : Carrier.encodeField(history);
            byte[] bytes = Arrays.copyOf(message, message.length + field.length);
            System.arraycopy(field, 0, bytes, message.length, field.length);
            call.sendMessage(bytes);
            call.close(Status.OK, new Metadata());
        }

        void fail(Status status) {
            call.close(status, new Metadata());
        }
    }

    /** The received requests, in order. */
    final BlockingQueue<Request> requests = new LinkedBlockingQueue<>();
    private final Server server;

    RawCallee() throws IOException {
        server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0)).fallbackHandlerRegistry(new HandlerRegistry() {
            @Override
            public ServerMethodDefinition<?, ?> lookupMethod(String name, String authority) {
                return method(name);
            }
        }).build().start();
    }

    private ServerMethodDefinition<byte[], byte[]> method(String name) {
        MethodDescriptor<byte[], byte[]> descriptor = MethodDescriptor.<byte[], byte[]>newBuilder()
                .setType(name.equals("t.T/Both") ? MethodDescriptor.MethodType.BIDI_STREAMING : MethodDescriptor.MethodType.UNARY)
                .setFullMethodName(name)
                .setRequestMarshaller(GrpcDriver.Raw.INSTANCE)
                .setResponseMarshaller(GrpcDriver.Raw.INSTANCE)
                .build();
        return ServerMethodDefinition.create(descriptor, (call, headers) -> {
            call.request(1);
            return new ServerCall.Listener<byte[]>() {
                @Override
                public void onMessage(byte[] message) {
                    requests.add(new Request(call, headers, message));
                }
            };
        });
    }

    String address() {
        return "127.0.0.1:" + server.getPort();
    }

    @Override
    public void close() {
        server.shutdownNow();
    }
}

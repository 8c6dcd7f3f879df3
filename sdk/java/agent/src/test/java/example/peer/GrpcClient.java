package example.peer;

import com.google.protobuf.StringValue;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/** The gRPC client, one channel per address. */
final class GrpcClient {
    private static final Map<String, ManagedChannel> CHANNELS = new ConcurrentHashMap<>();

    private GrpcClient() {}

    private static ManagedChannel channel(String address) {
        return CHANNELS.computeIfAbsent(address, a -> GrpcTransport.channel(a).usePlaintext().build());
    }

    /** {@code OK text} or {@code CODE description}; a method {@code Name@ms} has that deadline. */
    static String unary(String address, String method, String request) {
        int at = method.indexOf('@');
        String name = at < 0 ? method : method.substring(0, at);
        long ms = at < 0 ? 30_000 : Long.parseLong(method.substring(at + 1));
        try {
            StringValue reply = ClientCalls.blockingUnaryCall(channel(address), GrpcMethods.unary(name),
                    CallOptions.DEFAULT.withDeadlineAfter(ms, TimeUnit.MILLISECONDS), StringValue.of(request));
            String text = reply.getValue();
            return "OK " + (text.length() > 1000 ? text.length() + " long" : text);
        } catch (StatusRuntimeException e) {
            return e.getStatus().getCode() + " " + e.getStatus().getDescription();
        }
    }

    /**
     * A stream whose messages are the lines of {@code request}. Returns the replies joined by {@code +}, and the final
     * code. Method {@code Down!} cancels it after the first message, {@code Down?} leaves it open.
     */
    static String stream(String address, String method, String request) {
        char how = method.charAt(method.length() - 1);
        String name = how == '!' || how == '?' ? method.substring(0, method.length() - 1) : method;
        MethodType type = name.equals("Down") ? MethodType.SERVER_STREAMING : name.equals("Up") ? MethodType.CLIENT_STREAMING : MethodType.BIDI_STREAMING;
        ClientCall<StringValue, StringValue> call = channel(address).newCall(GrpcMethods.method(name, type),
                CallOptions.DEFAULT.withDeadlineAfter(30, TimeUnit.SECONDS));
        StringBuilder received = new StringBuilder();
        CompletableFuture<String> end = new CompletableFuture<>();
        StreamObserver<StringValue> replies = new StreamObserver<>() {
            @Override
            public void onNext(StringValue message) {
                received.append(received.length() == 0 ? "" : "+").append(message.getValue());
                if (how == '!') {
                    call.cancel("enough", null);
                } else if (how == '?') {
                    end.complete(received + " open");
                }
            }

            @Override
            public void onError(Throwable error) {
                end.complete(received + " " + Status.fromThrowable(error).getCode());
            }

            @Override
            public void onCompleted() {
                end.complete(received + " OK");
            }
        };
        if (type == MethodType.SERVER_STREAMING) {
            ClientCalls.asyncServerStreamingCall(call, StringValue.of(request), replies);
        } else {
            StreamObserver<StringValue> out = type == MethodType.CLIENT_STREAMING
                    ? ClientCalls.asyncClientStreamingCall(call, replies) : ClientCalls.asyncBidiStreamingCall(call, replies);
            for (String line : request.split("\n")) {
                out.onNext(StringValue.of(line));
            }
            out.onCompleted();
        }
        return end.join();
    }

    /** An asynchronous call whose reply callback makes a second call, on the library's thread. */
    static String twice(String address, String method, String request) {
        CompletableFuture<String> end = new CompletableFuture<>();
        ClientCalls.asyncUnaryCall(channel(address).newCall(GrpcMethods.unary(method), CallOptions.DEFAULT), StringValue.of(request), new StreamObserver<>() {
            @Override
            public void onNext(StringValue first) {
                ClientCalls.asyncUnaryCall(channel(address).newCall(GrpcMethods.unary(method), CallOptions.DEFAULT), first, new StreamObserver<>() {
                    @Override
                    public void onNext(StringValue second) {
                        end.complete("OK " + second.getValue());
                    }

                    @Override
                    public void onError(Throwable error) {
                        end.complete(Status.fromThrowable(error).getCode().toString());
                    }

                    @Override
                    public void onCompleted() {}
                });
            }

            @Override
            public void onError(Throwable error) {
                end.complete(Status.fromThrowable(error).getCode().toString());
            }

            @Override
            public void onCompleted() {}
        });
        return end.join();
    }
}

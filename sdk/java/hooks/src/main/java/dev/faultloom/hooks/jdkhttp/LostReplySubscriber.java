package dev.faultloom.hooks.jdkhttp;

import dev.faultloom.hooks.http.HttpCall;
import dev.faultloom.hooks.http.TailWindow;
import java.io.IOException;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;

/** Reads a lost reply to its end, for the history, and then fails with a connection reset. */
final class LostReplySubscriber<T> implements BodySubscriber<T> {
    private final boolean tail;
    private final HttpCall call;
    private final TailWindow window = new TailWindow();
    private final CompletableFuture<T> result = new CompletableFuture<>();

    LostReplySubscriber(boolean tail, HttpCall call) {
        this.tail = tail;
        this.call = call;
    }

    @Override
    public CompletionStage<T> getBody() {
        return result;
    }

    @Override
    public void onSubscribe(Flow.Subscription subscription) {
        subscription.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(List<ByteBuffer> items) {
        for (ByteBuffer item : items) {
            byte[] bytes = new byte[item.remaining()];
            item.get(bytes);
            if (tail) {
                window.add(bytes, 0, bytes.length);
                window.take();
            }
        }
    }

    @Override
    public void onComplete() {
        call.recordReply(tail ? window.finish() : null);
        result.completeExceptionally(new IOException("Connection reset"));
    }

    @Override
    public void onError(Throwable error) {
        call.recordReply(null);
        result.completeExceptionally(new IOException("Connection reset", error));
    }
}

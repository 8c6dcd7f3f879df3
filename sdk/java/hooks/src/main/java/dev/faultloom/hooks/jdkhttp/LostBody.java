package dev.faultloom.hooks.jdkhttp;

import dev.faultloom.http.HttpCall;
import dev.faultloom.http.Window;
import java.io.IOException;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;

/** Reads a lost reply to its end, for the history, and breaks then. */
final class LostBody<T> implements BodySubscriber<T> {
    private final boolean tail;
    private final HttpCall call;
    private final Window window = new Window();
    private final CompletableFuture<T> broken = new CompletableFuture<>();

    LostBody(boolean tail, HttpCall call) {
        this.tail = tail;
        this.call = call;
    }

    @Override
    public CompletionStage<T> getBody() {
        return broken;
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
                window.feed(bytes, 0, bytes.length);
                window.take();
            }
        }
    }

    @Override
    public void onComplete() {
        call.ended(tail ? window.finish() : null);
        broken.completeExceptionally(new IOException("Connection reset"));
    }

    @Override
    public void onError(Throwable error) {
        call.ended(null);
        broken.completeExceptionally(new IOException("Connection reset", error));
    }
}

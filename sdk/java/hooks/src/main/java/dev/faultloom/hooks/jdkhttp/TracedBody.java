package dev.faultloom.hooks.jdkhttp;

import dev.faultloom.http.HttpCall;
import dev.faultloom.http.TailStream;
import dev.faultloom.http.Window;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;

/**
 * A reply's body on its way to the application's subscriber: without a tail, and as a fault changes it. What was held back
 * goes out at the end, when the subscriber asks for more.
 */
final class TracedBody<T> implements BodySubscriber<T>, Flow.Subscription {
    private final BodySubscriber<T> application;
    private final boolean tail;
    private final HttpCall call;
    private final Window window = new Window();
    private Flow.Subscription library;
    private long demand;
    private boolean complete;
    private byte[] last; // to go out before the end; null: nothing, or the end was told

    TracedBody(BodySubscriber<T> application, boolean tail, HttpCall call) {
        this.application = application;
        this.tail = tail;
        this.call = call;
    }

    @Override
    public CompletionStage<T> getBody() {
        return application.getBody();
    }

    @Override
    public void onSubscribe(Flow.Subscription subscription) {
        library = subscription;
        application.onSubscribe(this);
    }

    @Override
    public void request(long n) {
        if (n > 0) {
            synchronized (this) {
                demand = demand + n < 0 ? Long.MAX_VALUE : demand + n;
            }
        }
        library.request(n);
        flushLast();
    }

    @Override
    public void cancel() {
        call.ended(null);
        library.cancel();
    }

    @Override
    public void onNext(List<ByteBuffer> items) {
        for (ByteBuffer item : items) {
            byte[] bytes = new byte[item.remaining()];
            item.get(bytes);
            window.feed(bytes, 0, bytes.length);
        }
        if (tail) {
            call.look(window);
        }
        if (call.changesBody() || window.ready() == 0) {
            library.request(1);
            return;
        }
        synchronized (this) {
            demand = demand == Long.MAX_VALUE ? demand : demand - 1;
        }
        application.onNext(buffers(tail ? window.take() : all()));
    }

    private byte[] all() {
        window.abandon();
        return window.take();
    }

    private static List<ByteBuffer> buffers(byte[] bytes) {
        return List.of(ByteBuffer.wrap(bytes).asReadOnlyBuffer());
    }

    @Override
    public void onComplete() {
        byte[] history = tail ? window.finish() : null;
        byte[] rest = tail ? window.take() : all();
        if (tail) {
            call.ended(history);
        }
        if (call.changesBody()) {
            rest = TailStream.changed(call, rest);
        }
        synchronized (this) {
            complete = true;
            last = rest;
        }
        flushLast();
    }

    private void flushLast() {
        byte[] out;
        synchronized (this) {
            if (!complete || last == null || (last.length > 0 && demand == 0)) {
                return;
            }
            out = last;
            last = null;
        }
        if (out.length > 0) {
            application.onNext(buffers(out));
        }
        application.onComplete();
    }

    @Override
    public void onError(Throwable error) {
        call.ended(null);
        application.onError(error);
    }
}

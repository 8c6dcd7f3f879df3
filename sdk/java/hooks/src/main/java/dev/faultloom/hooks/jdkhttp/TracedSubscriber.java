package dev.faultloom.hooks.jdkhttp;

import dev.faultloom.hooks.faults.Faults;
import dev.faultloom.hooks.http.HttpCall;
import dev.faultloom.hooks.http.TailWindow;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;

/**
 * Passes the body of a reply to the application's subscriber, without a tail and changed by a fault. Bytes that were
 * held back are delivered at the end, when the subscriber has requested more.
 */
final class TracedSubscriber<T> implements BodySubscriber<T>, Flow.Subscription {
    private final BodySubscriber<T> application;
    private final boolean tail;
    private final HttpCall call;
    private final TailWindow window = new TailWindow();
    private Flow.Subscription library;
    private long demand;
    private boolean ended;
    private Throwable failure; // why the body broke off; null: it is complete
    private byte[] lastBytes; // to deliver before the end; null: none, or delivered

    TracedSubscriber(BodySubscriber<T> application, boolean tail, HttpCall call) {
        this.application = application;
        this.tail = tail;
        this.call = call;
    }

    @Override
    public CompletionStage<T> getBody() {
        return application.getBody();
    }

    /** Whether the body is complete or broke off. */
    synchronized boolean hasEnded() {
        return ended;
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
        call.recordReply(null);
        library.cancel();
    }

    @Override
    public void onNext(List<ByteBuffer> items) {
        for (ByteBuffer item : items) {
            byte[] bytes = new byte[item.remaining()];
            item.get(bytes);
            window.add(bytes, 0, bytes.length);
        }
        if (tail) {
            call.recordIfComplete(window);
        }
        if (call.effect.changesBody() || window.ready() == 0) {
            library.request(1);
            return;
        }
        synchronized (this) {
            demand = demand == Long.MAX_VALUE ? demand : demand - 1;
        }
        application.onNext(buffers(tail ? window.take() : takeAll()));
    }

    private byte[] takeAll() {
        window.releaseAll();
        return window.take();
    }

    private static List<ByteBuffer> buffers(byte[] bytes) {
        return List.of(ByteBuffer.wrap(bytes).asReadOnlyBuffer());
    }

    @Override
    public void onComplete() {
        byte[] history = tail ? window.finish() : null;
        byte[] rest = tail ? window.take() : takeAll();
        if (tail) {
            call.recordReply(history);
        }
        if (call.effect.changesBody()) {
            rest = Arrays.copyOf(rest, Faults.changeBody(call.effect.outcome, rest, rest.length));
        }
        end(rest, null);
    }

    /** Delivers the last bytes and then the end of the body. */
    private void end(byte[] rest, Throwable error) {
        synchronized (this) {
            ended = true;
            failure = error;
            lastBytes = rest;
        }
        flushLast();
    }

    private void flushLast() {
        byte[] out;
        synchronized (this) {
            if (!ended || lastBytes == null || (lastBytes.length > 0 && demand == 0)) {
                return;
            }
            out = lastBytes;
            lastBytes = null;
        }
        if (out.length > 0) {
            application.onNext(buffers(out));
        }
        if (failure == null) {
            application.onComplete();
        } else {
            application.onError(failure);
        }
    }

    @Override
    public void onError(Throwable error) {
        call.recordReply(null);
        end(takeAll(), error); // no tail will come: bytes that were held back belong to the body
    }
}

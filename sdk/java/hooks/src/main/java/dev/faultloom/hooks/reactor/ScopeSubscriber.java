package dev.faultloom.hooks.reactor;

import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.Scope;
import dev.faultloom.scope.ScopeContext;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.Fuseable;
import reactor.util.context.Context;

/**
 * Binds a request to the current thread while a signal passes, in both directions. Operators that were assembled for a
 * source with a queue require a subscription with one; this one declines to use it.
 */
final class ScopeSubscriber<T> implements CoreSubscriber<T>, Fuseable.QueueSubscription<T> {
    private final CoreSubscriber<? super T> actual;
    private final ScopeContext context;
    private final Context reactor;
    private Subscription subscription;

    private ScopeSubscriber(CoreSubscriber<? super T> actual, ScopeContext context, Context reactor) {
        this.actual = actual;
        this.context = context;
        this.reactor = reactor;
    }

    /** The subscriber of an operator, which stays as it is if its subscription belongs to no request. */
    static <T> CoreSubscriber<? super T> ofOperator(CoreSubscriber<? super T> actual) {
        Context reactor = actual.currentContext();
        ScopeContext context = reactor.getOrDefault(ReactorHooks.SCOPE, null);
        return context == null ? actual : new ScopeSubscriber<T>(actual, context, reactor);
    }

    static <T> CoreSubscriber<? super T> enter(CoreSubscriber<? super T> actual, ScopeContext context) {
        return new ScopeSubscriber<T>(actual, context, actual.currentContext().put(ReactorHooks.SCOPE, context));
    }

    static <T> CoreSubscriber<? super T> bind(CoreSubscriber<? super T> actual, ScopeContext context) {
        return new ScopeSubscriber<T>(actual, context, actual.currentContext());
    }

    /** Null: the thread works for the request already, or no scope of the process is unfinished. */
    private CurrentScope.Binding bind() {
        return Scope.anyUnfinished() && CurrentScope.context() != context ? context.bind() : null;
    }

    @Override
    public Context currentContext() {
        return reactor;
    }

    @Override
    public void onSubscribe(Subscription s) {
        subscription = s;
        try (CurrentScope.Binding ignored = bind()) {
            actual.onSubscribe(this);
        }
    }

    @Override
    public void onNext(T value) {
        try (CurrentScope.Binding ignored = bind()) {
            actual.onNext(value);
        }
    }

    @Override
    public void onError(Throwable error) {
        try (CurrentScope.Binding ignored = bind()) {
            actual.onError(error);
        }
    }

    @Override
    public void onComplete() {
        try (CurrentScope.Binding ignored = bind()) {
            actual.onComplete();
        }
    }

    @Override
    public void request(long n) {
        try (CurrentScope.Binding ignored = bind()) {
            subscription.request(n);
        }
    }

    @Override
    public void cancel() {
        try (CurrentScope.Binding ignored = bind()) {
            subscription.cancel();
        }
    }

    @Override
    public int requestFusion(int mode) {
        return Fuseable.NONE;
    }

    @Override
    public T poll() {
        return null;
    }

    @Override
    public int size() {
        return 0;
    }

    @Override
    public boolean isEmpty() {
        return true;
    }

    @Override
    public void clear() {}
}

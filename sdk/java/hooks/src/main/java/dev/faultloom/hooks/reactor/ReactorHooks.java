package dev.faultloom.hooks.reactor;

import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.Scope;
import dev.faultloom.scope.ScopeContext;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.reactivestreams.Publisher;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Hooks;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.util.context.ContextView;

/**
 * Reactor: a request's scope is in the Reactor context of its subscription, which no thread, scheduler or shared
 * publisher mixes up with that of another request. Every operator of such a subscription binds the scope to the thread
 * on which it runs, for the calls of clients that know only threads.
 */
public final class ReactorHooks {
    /**
     * The key of a {@link ScopeContext} in a Reactor context. A string, because each class loader has its own hooks.
     */
    static final String SCOPE = "dev.faultloom.scope";

    /** The key in the context of a call that a hook above Reactor Netty has traced or counted. */
    private static final String KNOWN = "dev.faultloom.known";

    private ReactorHooks() {}

    /** Installs the hook for operators, which Reactor calls for each one that is assembled. */
    public static void install() {
        Function<? super Publisher<Object>, ? extends Publisher<Object>> bind =
                Operators.liftPublisher((publisher, actual) -> ScopeSubscriber.ofOperator(actual));
        Hooks.onEachOperator("faultloom", publisher -> Scope.anyUnfinished() ? bind.apply(publisher) : publisher);
    }

    /** The request that a subscription works for: that of its Reactor context, else of the current thread; or null. */
    public static ScopeContext context(ContextView reactor) {
        ScopeContext context = reactor.getOrDefault(SCOPE, null);
        return context != null ? context : CurrentScope.context();
    }

    /** The work of a request: its operators get the scope, whichever thread they run on. */
    public static <T> Mono<T> enter(Mono<T> work, ScopeContext context) {
        return lift(work, actual -> ScopeSubscriber.enter(actual, context));
    }

    /** The subscriber gets its signals inside this request. */
    public static <T> Mono<T> bind(Mono<T> result, ScopeContext context) {
        return lift(result, actual -> ScopeSubscriber.bind(actual, context));
    }

    /** A call that needs no count by Reactor Netty's hook. */
    public static <T> Mono<T> known(Mono<T> call) {
        return call.contextWrite(reactor -> reactor.put(KNOWN, true));
    }

    public static boolean isKnown(ContextView reactor) {
        return reactor.hasKey(KNOWN);
    }

    private static <T> Mono<T> lift(Mono<T> source, UnaryOperator<CoreSubscriber<? super T>> change) {
        return Mono.from(Operators.<T, T>liftPublisher((publisher, actual) -> change.apply(actual)).apply(source));
    }
}

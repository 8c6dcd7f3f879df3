package dev.faultloom.scope;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.wire.Accept;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class CurrentScopeTest {
    /** All ways to finish a scope. */
    private static final Map<String, Consumer<Scope>> FINISHERS = Map.of(
            "finish", s -> s.finish(s.now(), 0, ""),
            "finishLater", s -> s.finishLater(s.now(), 0).history(),
            "lastPiece", s -> s.lastPiece(s.now(), 0),
            "abandon", Scope::abandon);

    private int others; // unfinished scopes of other tests

    @BeforeEach
    void hideOtherScopes() {
        others = Scope.UNFINISHED.getAndSet(0);
    }

    @AfterEach
    void restoreOtherScopes() {
        Scope.UNFINISHED.addAndGet(others);
    }

    @Test
    void currentScopeIsNullWhileNoScopeIsUnfinished() {
        FINISHERS.forEach((how, finish) -> {
            Scope scope = Scopes.begin(Accept.NONE, 0);
            Scope other = Scopes.begin(Accept.NONE, 0);
            try (CurrentScope.Binding bound = CurrentScope.bind(scope)) {
                assertSame(scope, CurrentScope.get(), how);
                finish.accept(other);
                other.abandon(); // ignored: the call has ended
                assertSame(scope, CurrentScope.get(), how + ": finishing a scope hid another");
                finish.accept(scope);
                assertNull(CurrentScope.get(), how + ": no scope is unfinished");
                Scope later = Scopes.begin(Accept.NONE, 0);
                assertNull(CurrentScope.get(), how + ": the binding outlives the scope");
                assertNotNull(CurrentScope.context(), how);
                finish.accept(later);
            }
            assertEquals(0, Scope.UNFINISHED.get(), how);
        });
    }

    /** The context of a thread that this one creates. */
    private static ScopeContext contextOfNewThread() throws InterruptedException {
        AtomicReference<ScopeContext> context = new AtomicReference<>();
        Thread thread = new Thread(() -> context.set(CurrentScope.context()));
        thread.start();
        thread.join();
        return context.get();
    }

    @Test
    void threadInheritsTheScopeUntilItFinishes() throws Exception {
        Scope scope = Scopes.begin(Accept.NONE, 0);
        Scope other = Scopes.begin(Accept.NONE, 0);
        assertNull(contextOfNewThread());
        ScopeContext inherited;
        try (CurrentScope.Binding bound = CurrentScope.bind(scope)) {
            assertFalse(CurrentScope.context().isInherited());
            inherited = contextOfNewThread();
            assertTrue(inherited.isInherited());
            assertSame(scope, inherited.scope());
            assertFalse(UnscopedCalls.counts(inherited));
            try (CurrentScope.Binding again = inherited.bind()) {
                assertFalse(CurrentScope.isBound());
                assertSame(inherited, contextOfNewThread(), "through another thread");
            }
            scope.abandon();
            assertNull(inherited.scope());
            assertNull(contextOfNewThread());
        }
        assertTrue(UnscopedCalls.counts(inherited), "another scope is unfinished");
        other.abandon();
        assertFalse(UnscopedCalls.counts(inherited));
    }

    @Test
    void untracedRequestIsNotInheritedAndItsCallsAreNotCounted() throws Exception {
        Scope scope = Scopes.begin(Accept.NONE, 0);
        ScopeContext request;
        assertTrue(UnscopedCalls.counts(CurrentScope.context()));
        try (CurrentScope.Binding bound = CurrentScope.bindUntraced()) {
            request = CurrentScope.context();
            assertTrue(CurrentScope.isBound());
            assertFalse(UnscopedCalls.counts(request));
            assertNull(contextOfNewThread());
        }
        assertTrue(UnscopedCalls.counts(request), "it is answered");
        scope.abandon();
    }
}

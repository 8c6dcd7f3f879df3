package dev.faultloom.scope;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import dev.faultloom.wire.Accept;
import java.util.Map;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class CurrentTest {
    /** Each way in which a scope ends. */
    private static final Map<String, Consumer<Scope>> ENDS = Map.of(
            "in one piece", s -> s.finish(s.now(), 0, ""),
            "later", s -> s.finishLater(s.now(), 0).history(),
            "in pieces", s -> s.lastPiece(s.now(), 0),
            "discarded", Scope::discard);

    private int others; // scopes of other tests that were never to answer

    @BeforeEach
    void none() {
        others = Scope.LIVE.getAndSet(0);
    }

    @AfterEach
    void again() {
        Scope.LIVE.addAndGet(others);
    }

    @Test
    void threadsAreAskedOnlyWhileAScopeHasStillToAnswer() {
        ENDS.forEach((how, end) -> {
            Scope scope = Scopes.begin(Accept.NONE, 0);
            Scope other = Scopes.begin(Accept.NONE, 0);
            try (Current.Binding bound = Current.bind(scope)) {
                assertSame(scope, Current.get(), how);
                end.accept(other);
                other.discard(); // a second end is none
                assertSame(scope, Current.get(), how + ": the end of one scope hides another");
                end.accept(scope);
                assertNull(Current.get(), how + ": nobody has still to answer");
                Scope later = Scopes.begin(Accept.NONE, 0);
                assertSame(scope, Current.get(), how + ": what is bound stays so, answered or not");
                end.accept(later);
            }
            assertEquals(0, Scope.LIVE.get(), how);
        });
    }
}

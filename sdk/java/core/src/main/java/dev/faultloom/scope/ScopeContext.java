package dev.faultloom.scope;

/**
 * What a thread works for: a scope, or a request that is not traced, until the request is answered. A thread that keeps
 * it longer works for no known request.
 */
public final class ScopeContext {
    private volatile Scope scope; // null once it has finished
    private volatile boolean untraced; // until the request is answered
    private final boolean inherited;

    private ScopeContext(Scope scope, boolean inherited, boolean untraced) {
        this.scope = scope;
        this.inherited = inherited;
        this.untraced = untraced;
    }

    /** The context of the threads that work for a scope. */
    static ScopeContext of(Scope scope) {
        return new ScopeContext(scope, false, false);
    }

    /** The context of the threads that such threads start. {@code scope} null: it has finished. */
    static ScopeContext inheritedFrom(Scope scope) {
        return new ScopeContext(scope, true, false);
    }

    /** The context of a request that is not traced. Its calls belong to it, so no scope counts them. */
    public static ScopeContext untraced() {
        return new ScopeContext(null, false, true);
    }

    /** The unfinished scope, or null. */
    public Scope scope() {
        return scope;
    }

    /** Whether it is an unanswered request without a scope. */
    public boolean isUntraced() {
        return untraced;
    }

    /** Whether calls in this context are marked, because the thread may work for other requests too. */
    public boolean isInherited() {
        return inherited;
    }

    /** Binds this context to the current thread until the result is closed. */
    public CurrentScope.Binding bind() {
        return CurrentScope.bindContext(this);
    }

    /** The context of threads that a thread with this context starts; null: none. */
    public ScopeContext inherit() {
        Scope unfinished = scope;
        return unfinished == null ? null : inherited ? this : unfinished.inheritedContext();
    }

    /** The request is answered. */
    public void end() {
        scope = null;
        untraced = false;
    }
}

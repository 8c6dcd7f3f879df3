package dev.faultloom.scope;

/** Where the history of a scope goes whose caller does not accept it. */
final class ExportTarget {
    /** Null: the history is dropped. */
    final HistorySink sink;
    /** The request carried a {@code traceparent}. */
    final boolean hasParent;
    /** The trace began at this process. */
    final boolean isSampled;

    ExportTarget(HistorySink sink, boolean hasParent, boolean isSampled) {
        this.sink = sink;
        this.hasParent = hasParent;
        this.isSampled = isSampled;
    }
}

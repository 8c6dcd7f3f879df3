package dev.faultloom.scope;

import dev.faultloom.entry.Exporter;

/** Where the history of a scope goes whose caller does not accept it. */
final class ExportTarget {
    /** Null: the history is dropped. */
    final Exporter exporter;
    /** The request carried a {@code traceparent}. */
    final boolean hasParent;

    ExportTarget(Exporter exporter, boolean hasParent) {
        this.exporter = exporter;
        this.hasParent = hasParent;
    }
}

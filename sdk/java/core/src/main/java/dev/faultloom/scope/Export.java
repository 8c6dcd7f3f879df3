package dev.faultloom.scope;

import dev.faultloom.entry.Exporter;

/** Where the history of a scope goes that nobody upstream takes away. */
final class Export {
    /** Null: nowhere. */
    final Exporter exporter;
    /** The request came with a {@code traceparent}. */
    final boolean hasParent;

    Export(Exporter exporter, boolean hasParent) {
        this.exporter = exporter;
        this.hasParent = hasParent;
    }
}

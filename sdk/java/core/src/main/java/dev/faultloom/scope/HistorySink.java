package dev.faultloom.scope;

/** Receives the histories that no caller accepts. Must neither block nor throw. */
public interface HistorySink {
    /** {@code hasParent}: the request carried a {@code traceparent}. */
    void add(long traceHigh, long traceLow, boolean hasParent, byte[] history);
}

package dev.faultloom.scope;

/** Selects the requests without an envelope that are traced from here on. Safe for concurrent use. */
public interface EntrySampler {
    /** Decides about the current request. */
    boolean sample();
}

package dev.faultloom.trust;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/** The plans that were accepted and when they expire, oldest first, to detect replays. Safe for concurrent use. */
final class ReplayCache {
    static final int MAX_ENTRIES = 65_536;

    private final Map<Entry, Long> expiries = new LinkedHashMap<>();

    /**
     * Adds a plan. False: it was added before and has not expired. {@code expires} and {@code now} are Unix seconds.
     */
    synchronized boolean admit(long traceHigh, long traceLow, long call, long attempt, long expires, long now) {
        Entry entry = new Entry(traceHigh, traceLow, call, attempt);
        Long previous = expiries.get(entry);
        if (previous != null) {
            if (previous > now) {
                return false;
            }
            expiries.remove(entry); // re-inserted at the end
        }
        Iterator<Long> oldest = expiries.values().iterator();
        while (oldest.hasNext() && (oldest.next() <= now || expiries.size() >= MAX_ENTRIES)) {
            oldest.remove();
        }
        expiries.put(entry, expires);
        return true;
    }

    synchronized int size() {
        return expiries.size();
    }

    private static final class Entry {
        final long traceHigh;
        final long traceLow;
        final long call;
        final long attempt;

        Entry(long traceHigh, long traceLow, long call, long attempt) {
            this.traceHigh = traceHigh;
            this.traceLow = traceLow;
            this.call = call;
            this.attempt = attempt;
        }

        @Override
        public boolean equals(Object other) {
            if (!(other instanceof Entry)) {
                return false;
            }
            Entry e = (Entry) other;
            return traceHigh == e.traceHigh && traceLow == e.traceLow && call == e.call && attempt == e.attempt;
        }

        @Override
        public int hashCode() {
            return Long.hashCode((traceHigh * 31 + traceLow) * 31 + call * 31 + attempt);
        }
    }
}

package dev.faultloom.entry;

import dev.faultloom.scope.EntrySampler;
import java.util.concurrent.ThreadLocalRandom;

/** Samples one in N requests, at random. */
public final class Sampler implements EntrySampler {
    private static final int MAX = 1_000_000;

    private final int n;

    private Sampler(int n) {
        this.n = n;
    }

    /** Parses {@code 1/N} with N from 1 to 1,000,000; null if it is anything else. */
    public static Sampler parse(String text) {
        if (!text.startsWith("1/") || text.length() < 3 || text.length() > 9 || text.charAt(2) == '0') {
            return null;
        }
        int n = 0;
        for (int i = 2; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c < '0' || c > '9') {
                return null;
            }
            n = 10 * n + c - '0';
        }
        return n <= MAX ? new Sampler(n) : null;
    }

    @Override
    public boolean sample() {
        return n == 1 || ThreadLocalRandom.current().nextInt(n) == 0;
    }
}

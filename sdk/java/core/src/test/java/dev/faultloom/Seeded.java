package dev.faultloom;

import java.util.Random;

/** Random numbers for tests. The seed is printed; {@code -Dseed=N} repeats a run. */
public final class Seeded {
    private Seeded() {}

    public static Random random(String test) {
        long seed = Long.getLong("seed", System.nanoTime());
        System.out.println(test + ": seed " + seed);
        return new Random(seed);
    }

    /** A string of {@code min} to {@code max} characters, including non-ASCII characters. */
    public static String text(Random r, int min, int max) {
        StringBuilder out = new StringBuilder();
        for (int n = min + r.nextInt(max - min + 1); n > 0; n--) {
            out.append("abcdefghij/ .-0123é€".charAt(r.nextInt(20)));
        }
        return out.toString();
    }

    /** A number of random magnitude. */
    public static long number(Random r) {
        return r.nextLong() >>> r.nextInt(64);
    }
}

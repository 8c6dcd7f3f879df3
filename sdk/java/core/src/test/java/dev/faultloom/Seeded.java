package dev.faultloom;

import java.util.Random;

/** Randomness of tests. The seed is printed; {@code -Dseed=N} repeats it. */
public final class Seeded {
    private Seeded() {}

    public static Random random(String test) {
        long seed = Long.getLong("seed", System.nanoTime());
        System.out.println(test + ": seed " + seed);
        return new Random(seed);
    }

    /** Text of {@code min} to {@code max} characters, some of them longer than a byte. */
    public static String text(Random r, int min, int max) {
        StringBuilder out = new StringBuilder();
        for (int n = min + r.nextInt(max - min + 1); n > 0; n--) {
            out.append("abcdefghij/ .-0123é€".charAt(r.nextInt(20)));
        }
        return out.toString();
    }

    /** A number of any size. */
    public static long number(Random r) {
        return r.nextLong() >>> r.nextInt(64);
    }
}

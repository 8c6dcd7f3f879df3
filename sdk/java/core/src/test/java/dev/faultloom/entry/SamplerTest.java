package dev.faultloom.entry;

import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class SamplerTest {
    @Test
    void onlyOneInNIsAccepted() {
        for (String good : new String[] {"1/1", "1/64", "1/1000000"}) {
            assertNotNull(Sampler.parse(good), good);
        }
        for (String bad : new String[] {"", "1", "1/", "1/0", "1/-4", "2/4", "0.5", "1/1000001", "1/99999999999", "1/ 4", "1/4x"}) {
            assertNull(Sampler.parse(bad), bad);
        }
    }

    @Test
    void oneInNIsSampled() {
        int sampled = 0;
        for (int i = 0; i < 100_000; i++) {
            sampled += Sampler.parse("1/10").sample() ? 1 : 0;
        }
        assertTrue(sampled > 9000 && sampled < 11_000, sampled + " of 100000"); // ten standard deviations
        assertTrue(Sampler.parse("1/1").sample());
    }
}

package dev.faultloom.wire;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.Seeded;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.util.Base64;
import java.util.Random;
import org.junit.jupiter.api.Test;

class TextTest {
    @Test
    void base64MatchesTheJdkAndEachValueHasOneText() {
        Random r = Seeded.random("base64");
        for (int i = 0; i < 500; i++) {
            byte[] b = new byte[r.nextInt(60)];
            r.nextBytes(b);
            String text = Text.encodeBase64(b);
            assertEquals(Base64.getUrlEncoder().withoutPadding().encodeToString(b), text);
            assertArrayEquals(b, Text.decodeBase64(text));
        }
        for (String bad : new String[] {"A", "AB", "AAB", "AA==", "AA\n", " AA", "A+", "A/", "é0", "AAAAA"}) {
            assertNull(Text.decodeBase64(bad), bad);
        }
    }

    @Test
    void utf8ValidationMatchesTheJdkDecoder() {
        Random r = Seeded.random("utf8");
        int right = 0;
        byte[] edges = {0x7F, (byte) 0x80, (byte) 0xBF, (byte) 0xC1, (byte) 0xC2, (byte) 0xE0, (byte) 0xA0, (byte) 0xED, (byte) 0x9F,
            (byte) 0xEF, (byte) 0xF0, (byte) 0x90, (byte) 0xF4, (byte) 0x8F, (byte) 0xF5, 'a'};
        for (int i = 0; i < 200_000; i++) {
            byte[] b = new byte[r.nextInt(6)];
            for (int j = 0; j < b.length; j++) {
                b[j] = edges[r.nextInt(edges.length)];
            }
            boolean strict = true;
            try {
                UTF_8.newDecoder().decode(ByteBuffer.wrap(b));
            } catch (CharacterCodingException e) {
                strict = false;
            }
            right += strict ? 1 : 0;
            assertEquals(strict, Text.isUtf8(b, 0, b.length), Text.hex(b));
        }
        assertTrue(right > 1000 && right < 199_000, "too few of either kind: " + right);
    }

    @Test
    void lengthAndTruncationCountBytesAndKeepCharactersWhole() {
        for (String s : new String[] {"", "abc", "é€𐍈", "\uD800", "a\uDC00b", "𐍈𐍈𐍈"}) {
            assertEquals(s.getBytes(UTF_8).length, Text.utf8Length(s), s);
        }
        for (int max = 0; max < 12; max++) {
            String cut = Text.truncate("aé€𐍈z", max);
            assertTrue("aé€𐍈z".startsWith(cut) && Text.utf8Length(cut) <= max && Text.utf8Length(cut) > max - 4, cut);
        }
    }

    @Test
    void hexIsDecodedInBothCases() {
        assertArrayEquals(new byte[] {(byte) 0xAB, 0x01}, Text.decodeHex("aB01"));
        assertNull(Text.decodeHex("abc"));
        assertNull(Text.decodeHex("zz"));
        assertEquals("00000000000000ff0000000000000001", Text.hex(255, 1));
    }
}

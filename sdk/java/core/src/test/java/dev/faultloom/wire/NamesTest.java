package dev.faultloom.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class NamesTest {
    @Test
    void namesAreTruncatedAtCharacters() {
        for (int i = 0; i < 5; i++) {
            int bytes = Text.utf8Length(Names.normalizeHttpName("GET /" + "x".repeat(i) + "€".repeat(80)));
            assertTrue(bytes <= Names.MAX_NAME_BYTES && bytes >= Names.MAX_NAME_BYTES - 2, bytes + " bytes");
        }
    }

    @Test
    void variablePartsAreReplaced() {
        assertEquals("GET /cart/{id}/items", Names.normalizeHttpName(Names.rawHttpName("GET", "/cart/17/items?x=/1#y")));
        assertEquals("GET /{id}", Names.normalizeHttpName("GET /5e884898"));
        assertEquals("GET /deadbeef", Names.normalizeHttpName("GET /deadbeef"));
        assertEquals("GET /{id}", Names.normalizeHttpName("GET /123e4567-e89b-12d3-a456-426614174000"));
        assertEquals("GET /{id}/", Names.normalizeHttpName("GET /ééééééééé12/"));
        assertEquals("GET /", Names.rawHttpName("GET", ""));
        assertEquals("GET /", Names.rawHttpName("GET", "?q"));
    }

    @Test
    void addressesAreDistinguishedFromHostNames() {
        for (String ip : new String[] {"127.0.0.1", "255.255.255.255", "::", "::1", "fe80::1%eth0", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4",
            "1:2:3:4:5:6:1.2.3.4", "1::8", "1:2:3:4:5:6:7::"}) {
            assertTrue(IpAddress.isIp(ip), ip);
        }
        for (String name : new String[] {"", "localhost", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "1.2.3.4.", "a.b.c.d", ":", ":::",
            "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "::1.2.3", "fe80::1%", "1:2:3:4:5:6:7:8::"}) {
            assertFalse(IpAddress.isIp(name), name);
        }
    }

    @Test
    void firstLabelMatchesAHostNameButNotAnAddress() {
        Selector s = new Selector("", "10", "");
        assertFalse(s.matches("a", "10.0.0.1:80", "x"));
        assertTrue(s.matches("a", "10.example:80", "x"));
        assertTrue(new Selector("", "::1", "").matches("a", "[::1]:80", "x"));
    }
}

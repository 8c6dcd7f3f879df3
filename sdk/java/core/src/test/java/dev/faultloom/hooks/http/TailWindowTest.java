package dev.faultloom.hooks.http;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Writer;
import java.io.ByteArrayOutputStream;
import org.junit.jupiter.api.Test;

final class TailWindowTest {
    private static final byte[] HISTORY = new Writer(64).u8(1).u64(7).u8(0).string("back").string("").varint(0).toBytes();
    private static final byte[] TEXT = "text ".repeat(20).getBytes(US_ASCII);

    private byte[] history;

    /** Splits a body that arrives in reads of {@code size} bytes; the application takes all that is ready. */
    private byte[] split(byte[] body, int size) {
        TailWindow window = new TailWindow();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (int at = 0; at < body.length; at += size) {
            window.add(body, at, Math.min(size, body.length - at));
            out.writeBytes(window.take());
        }
        history = window.finish();
        out.writeBytes(window.take());
        return out.toByteArray();
    }

    private static byte[] joined(byte[]... parts) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (byte[] part : parts) {
            out.writeBytes(part);
        }
        return out.toByteArray();
    }

    @Test
    void theTailIsRemovedHoweverTheBodyIsCut() {
        byte[] start = new byte[] {1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 4, 'b'};
        byte[] start2 = new byte[] {2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 4, 'b'};
        byte[] message = joined(TEXT, start, start2, start, TEXT);
        for (int version : new int[] {1, 2}) {
            byte[] sent = HISTORY.clone();
            sent[0] = (byte) version;
            for (int size : new int[] {1, 2, 3, 7, 16, 50, 1000}) {
                assertArrayEquals(message, split(joined(message, Carrier.encodeTail(sent)), size), "reads of " + size);
                assertArrayEquals(sent, history);
            }
        }
    }

    @Test
    void bytesThatWereRuledOutAreNotATailAtTheEnd() {
        // the length of the service's name in two bytes, which no writer uses and which is ruled out at once
        byte[] longer = new Writer(64).u8(1).u64(7).u8(0).u8(0x84).u8(0).bytes("back".getBytes(US_ASCII)).u8(0).u8(0).toBytes();
        byte[] body = joined(TEXT, Carrier.encodeTail(longer));
        for (int size : new int[] {1, 7, 1000}) {
            assertArrayEquals(body, split(body, size), "reads of " + size);
            assertNull(history);
        }
        TailWindow untaken = new TailWindow();
        untaken.add(body, 0, body.length);
        assertNull(untaken.finish());
        assertEquals(body.length, untaken.ready());
    }
}

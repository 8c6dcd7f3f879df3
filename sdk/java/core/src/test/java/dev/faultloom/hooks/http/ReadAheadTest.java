package dev.faultloom.hooks.http;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(20)
final class ReadAheadTest {
    /** A body of 1 MiB. */
    private static final class Body extends InputStream {
        static final int LENGTH = 1 << 20;
        final CountDownLatch closed = new CountDownLatch(1);
        private int read;

        @Override
        public int read() {
            throw new UnsupportedOperationException();
        }

        @Override
        public synchronized int read(byte[] b, int from, int length) {
            int n = Math.min(length, LENGTH - read);
            read += n;
            return n == 0 ? -1 : n;
        }

        synchronized int bytesRead() {
            return read;
        }

        @Override
        public void close() {
            closed.countDown();
        }
    }

    private static void awaitLimit(Body body) {
        while (body.bytesRead() <= TailInputStream.MAX_EAGER) {
            Thread.onSpinWait();
        }
    }

    @Test
    void readsOnlyAsMuchAheadAsIsKeptInMemory() throws Exception {
        Body body = new Body();
        ReadAhead ahead = ReadAhead.start(body, () -> {});
        awaitLimit(body);
        assertFalse(ahead.awaitEnd(50));
        assertTrue(body.bytesRead() <= TailInputStream.MAX_EAGER + 8192, body.bytesRead() + " bytes");
        assertEquals(Body.LENGTH, ahead.readAllBytes().length);
        assertTrue(ahead.awaitEnd(1));
    }

    @Test
    void closingEndsTheWaitForRoom() throws Exception {
        Body body = new Body();
        ReadAhead ahead = ReadAhead.start(body, () -> {});
        awaitLimit(body);
        ahead.close();
        assertTrue(body.closed.await(10, TimeUnit.SECONDS));
    }

    @Test
    void anErrorOfTheBodyEndsIt() {
        ReadAhead ahead = ReadAhead.start(new InputStream() {
            @Override
            public int read() {
                throw new AssertionError("broken");
            }
        }, () -> {});
        assertEquals("broken", assertThrows(IOException.class, ahead::read).getCause().getMessage());
    }
}

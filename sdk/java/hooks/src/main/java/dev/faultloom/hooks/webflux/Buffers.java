package dev.faultloom.hooks.webflux;

import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.http.HttpHeaders;

/** Buffers and headers of Spring. */
final class Buffers {
    private Buffers() {}

    /** The bytes of a buffer, which is released. */
    static byte[] take(DataBuffer buffer) {
        byte[] bytes = new byte[buffer.readableByteCount()];
        buffer.read(bytes);
        DataBufferUtils.release(buffer);
        return bytes;
    }

    /** The values of a header, joined; or null. */
    static String joinedValues(HttpHeaders headers, String name) {
        return headers.getFirst(name) == null ? null : String.join(", ", headers.getValuesAsList(name));
    }
}

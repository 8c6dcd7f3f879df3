package dev.faultloom.hooks.grpc;

import io.grpc.Drainable;
import io.grpc.KnownLength;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;

/** A message in an array, as a stream that reports its length and drains without a copy by the library. */
final class MessageStream extends ByteArrayInputStream implements Drainable, KnownLength {
    MessageStream(byte[] bytes, int end) {
        super(bytes, 0, end);
    }

    @Override
    public int drainTo(OutputStream out) throws IOException {
        return (int) transferTo(out);
    }

    /** Reads a stream to its end; with a known length, into one array of that length. */
    static byte[] readAll(InputStream in) throws IOException {
        int length = in instanceof KnownLength ? in.available() : 0;
        if (length <= 0) {
            return in.readAllBytes();
        }
        byte[] out = in.readNBytes(length);
        int next = in.read();
        if (next < 0) {
            return out;
        }
        byte[] rest = in.readAllBytes();
        byte[] all = new byte[out.length + 1 + rest.length];
        System.arraycopy(out, 0, all, 0, out.length);
        all[out.length] = (byte) next;
        System.arraycopy(rest, 0, all, out.length + 1, rest.length);
        return all;
    }
}

package dev.faultloom.hooks.grpc;

import io.grpc.Drainable;
import io.grpc.KnownLength;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;

/** A part of an array as a stream whose length the library may ask for, and which it need not copy by itself. */
final class Bytes extends ByteArrayInputStream implements Drainable, KnownLength {
    Bytes(byte[] bytes, int end) {
        super(bytes, 0, end);
    }

    @Override
    public int drainTo(OutputStream out) throws IOException {
        return (int) transferTo(out);
    }

    /** Everything in a stream; one that tells its length is read without growing. */
    static byte[] read(InputStream in) throws IOException {
        int known = in instanceof KnownLength ? in.available() : 0;
        if (known <= 0) {
            return in.readAllBytes();
        }
        byte[] out = in.readNBytes(known);
        int more = in.read();
        if (more < 0) {
            return out;
        }
        byte[] rest = in.readAllBytes();
        byte[] all = new byte[out.length + 1 + rest.length];
        System.arraycopy(out, 0, all, 0, out.length);
        all[out.length] = (byte) more;
        System.arraycopy(rest, 0, all, out.length + 1, rest.length);
        return all;
    }
}

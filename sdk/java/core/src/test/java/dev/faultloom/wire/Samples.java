package dev.faultloom.wire;

import dev.faultloom.Seeded;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Random valid values. */
public final class Samples {
    private Samples() {}

    static List<Fault> plan(Random r) {
        List<Fault> plan = new ArrayList<>();
        for (int n = 1 + r.nextInt(5); n > 0; n--) {
            List<Prerequisite> after = new ArrayList<>();
            for (int j = r.nextInt(4); j > 0; j--) {
                after.add(new Prerequisite(selector(r), 1 + r.nextInt(300)));
            }
            plan.add(new Fault(FaultKind.of(1 + r.nextInt(9)), selector(r), Seeded.number(r), r.nextInt(3), r.nextInt(300), after,
                    r.nextBoolean()));
        }
        return plan;
    }

    private static Selector selector(Random r) {
        return new Selector(Seeded.text(r, 0, 3), Seeded.text(r, 0, 3), Seeded.text(r, 0, 3));
    }

    static SignedPart signed(Random r) {
        byte[] run = new byte[16];
        r.nextBytes(run);
        return new SignedPart(r.nextBoolean(), r.nextBoolean(), r.nextLong(), r.nextLong(), r.nextBoolean() ? run : null,
                r.nextLong() >>> 32, Seeded.text(r, 1, 10), Seeded.text(r, 1, 20), r.nextBoolean() ? plan(r) : null);
    }

    /** A random history of this call, with nested histories. */
    public static byte[] history(Random r, long call, int depth) {
        int version = 1 + r.nextInt(2);
        return new Writer(64).u8(version).u64(call).bytes(segment(r, version, depth)).toBytes();
    }

    private static byte[] segment(Random r, int version, int depth) {
        Writer out = new Writer(64);
        Segment.writePrefix(out, r.nextInt(4), Seeded.text(r, 1, 20), Seeded.text(r, 0, 30), Seeded.number(r) >>> 12);
        List<Integer> open = new ArrayList<>();
        int calls = 0;
        int[] table = {0};
        for (int n = r.nextInt(12); n > 0; n--) {
            if (version == History.VERSION_2 && r.nextInt(4) == 0) {
                out.u8(Event.UNSCOPED_CALLS | r.nextInt(2) * Event.TAG_HTTP).varint(r.nextInt(1000));
                reference(r, out, table);
                reference(r, out, table);
                out.varint(r.nextInt(300)).string(Seeded.text(r, 0, 40));
                continue;
            }
            if (open.isEmpty() || r.nextBoolean()) {
                int tag = Event.SEND_REQUEST | r.nextInt(4 * version) << 3;
                out.u8(tag).varint(r.nextInt(1000));
                reference(r, out, table);
                reference(r, out, table);
                if ((tag & Event.TAG_FAULT) != 0) {
                    out.varint(r.nextInt(64));
                }
                open.add(++calls);
                continue;
            }
            boolean child = depth > 0 && r.nextBoolean();
            out.u8(Event.RECV_RESPONSE + r.nextInt(2) | (child ? Event.TAG_CHILD : 0)).varint(r.nextInt(1000));
            out.varint(open.remove(r.nextInt(open.size()))).varint(r.nextBoolean() ? 0 : 14);
            if (child) {
                byte[] inner = segment(r, version, depth - 1);
                out.varint(inner.length).bytes(inner);
            }
        }
        if (r.nextInt(5) > 0) {
            out.u8(Event.SEND_RESPONSE).varint(r.nextInt(1000)).varint(200);
        }
        return out.toBytes();
    }

    private static void reference(Random r, Writer out, int[] table) {
        if (table[0] > 0 && r.nextBoolean()) {
            out.varint(1 + r.nextInt(table[0]));
        } else {
            table[0]++;
            out.u8(0).string(Seeded.text(r, 1, 40));
        }
    }
}

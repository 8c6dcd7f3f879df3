package dev.faultloom.scope;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.entry.Entry;
import dev.faultloom.trust.Receiver;
import dev.faultloom.trust.Signer;
import dev.faultloom.trust.TrustSettings;
import dev.faultloom.wire.Accept;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.Kind;
import dev.faultloom.wire.Text;
import dev.faultloom.wire.Traceparent;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.Test;

class ProcessTest {
    private static final String TRUST = "environment demo;key trace t1 " + "01".repeat(32) + ";key fault f1 " + "02".repeat(32);
    private static final long SOON = System.currentTimeMillis() / 1000 + 60;

    private static Process process(Map<String, String> more) {
        Map<String, String> variables = new HashMap<>(Map.of("FAULTLOOM_TRUST", TRUST, "FAULTLOOM_SERVICE", "front"));
        variables.putAll(more);
        return Process.of(variables);
    }

    private static byte[] envelope(List<Fault> plan, boolean bridge) throws Exception {
        Signer signer = Signer.of(TrustSettings.parse(TRUST), plan != null);
        return signer.begin(1, 2, null, plan, bridge, 9, SOON).assemble(9, Accept.FIELD, 100, null);
    }

    @Test
    void theUsualCarriersOpenScopes() throws Exception {
        Process p = process(Map.of());
        assertTrue(p.openGrpc(envelope(null, false), n -> null).answers());
        assertEquals(9, p.openHttp(Map.of("x-faultloom", Text.base64(envelope(null, false)))::get).envelope().hop.call);
        assertNull(p.openGrpc(null, n -> null));
        assertNull(p.openHttp(n -> null));
        assertNull(p.openGrpc(new byte[] {1, 2}, n -> null));
        assertNull(p.openHttp(Map.of("x-faultloom", "!")::get));
        assertNull(Process.of(Map.of()).openGrpc(envelope(null, false), n -> null), "deaf");
        assertFalse(p.deaf());
        assertTrue(Process.of(Map.of()).deaf());
    }

    @Test
    void aTransparentRetryIsNoReplay() throws Exception {
        Process p = process(Map.of());
        byte[] raw = envelope(List.of(Fault.of(Kind.RESET)), false);
        assertNotNull(p.openGrpc(raw, n -> null));
        assertNull(p.openGrpc(raw, n -> null));
        assertNotNull(p.openGrpc(raw, Map.of("grpc-previous-rpc-attempts", "1")::get));
        assertNull(p.openGrpc(raw, Map.of("grpc-previous-rpc-attempts", "nonsense")::get));
    }

    @Test
    void aBridgedRequestPlaysItsPartAndBringsNothingBack() throws Exception {
        Process p = process(Map.of());
        String text = Text.base64(envelope(List.of(Fault.of(Kind.STATUS).arg(5)), true));
        Map<String, String> headers = Map.of("baggage", "a=b,faultloom=" + text, "traceparent", Traceparent.format(5, 6, 77));
        Scope s = p.openHttp(headers::get);
        assertEquals(77, s.envelope().hop.call);
        assertFalse(s.answers());
        Call call = s.sendHttp("b:1", "GET", "/x", true);
        assertEquals(Kind.STATUS, call.fault.kind);
        assertTrue(call.bridged());
        assertEquals(Traceparent.format(1, 2, call.id), call.traceparent(null));
        assertEquals("kept", call.traceparent("kept"));
        assertEquals("x=y,faultloom=" + call.header(), call.baggage("x=y"));
        assertNull(s.finish(1, 200, ""));
        assertNull(p.openHttp(Map.of("baggage", "faultloom=" + text)::get), "no traceparent");
        assertNull(p.openHttp(headers::get), "a replay");
        Map<String, String> both = new HashMap<>(headers);
        both.put("x-faultloom", Text.base64(envelope(null, false)));
        assertEquals(9, p.openHttp(both::get).envelope().hop.call, "the usual carrier goes first");
    }

    @Test
    void aRequestWithoutBridgePermissionLeavesOtherHeadersAlone() throws Exception {
        Scope s = process(Map.of()).openGrpc(envelope(null, false), n -> null);
        assertFalse(s.sendGrpc("b:1", "/a/B", 100).bridged());
    }

    @Test
    void peersAndPrograms() {
        Process p = process(Map.of("FAULTLOOM_PEERS", "127.0.0.1:1=a, [::1]:2=b,,=c,d=,e"));
        assertEquals(List.of("a", "b", "x:1", "d", "e"),
                List.of(p.peer("127.0.0.1:1"), p.peer("[::1]:2"), p.peer("x:1"), p.peer("d"), p.peer("e")));
        assertEquals("shop", Process.programName("/opt/app/shop.jar --port 80"));
        assertEquals("Main", Process.programName("com.example.Main x.y"));
        assertEquals("java", Process.programName(null));
        assertEquals(64, new Process("x".repeat(99), Map.of(), new Receiver((TrustSettings) null), Entry.NONE).service().length());
    }

    @Test
    void workThatIsWrappedKeepsItsScope() throws Exception {
        Scope s = Scopes.begin(Accept.NONE, 0);
        Scope[] seen = new Scope[1];
        Runnable plain = () -> seen[0] = Current.get();
        assertSame(plain, Current.wrap(plain));
        Runnable task;
        Callable<Scope> asked;
        try (Current.Binding outer = Current.bind(s)) {
            task = Current.wrap(plain);
            asked = Current.wrap((Callable<Scope>) Current::get);
            try (Current.Binding inner = Current.bind(null)) {
                assertNull(Current.get());
            }
            assertSame(s, Current.get());
        }
        assertNull(Current.get());
        task.run();
        assertSame(s, seen[0]);
        assertSame(s, asked.call());
        assertNull(Current.get());
    }
}

package dev.faultloom.scope;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.trust.Receiver;
import dev.faultloom.trust.Signer;
import dev.faultloom.trust.TrustSettings;
import dev.faultloom.wire.Accept;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
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

    private static Process process(String trust) throws Exception {
        return new Process("front", Map.of(), new Receiver(trust == null ? null : TrustSettings.parse(trust)));
    }

    private static byte[] envelope(List<Fault> plan, boolean bridge) throws Exception {
        Signer signer = Signer.of(TrustSettings.parse(TRUST), plan != null);
        return signer.sign(1, 2, null, plan, bridge, 9, SOON).assemble(9, Accept.FIELD, 100, null);
    }

    @Test
    void directCarriersOpenScopes() throws Exception {
        Process p = process(TRUST);
        assertTrue(p.openScope(IncomingRequest.grpc(envelope(null, false), n -> null)).returnsHistory());
        assertEquals(9, p.openScope(Map.of("x-faultloom", Text.encodeBase64(envelope(null, false)))::get).envelope().hop.call);
        assertNull(p.openScope(IncomingRequest.grpc(null, n -> null)));
        assertNull(p.openScope(n -> null));
        assertNull(p.openScope(IncomingRequest.grpc(new byte[] {1, 2}, n -> null)));
        assertNull(p.openScope(Map.of("x-faultloom", "!")::get));
        Process inactive = process(null);
        assertNull(inactive.openScope(IncomingRequest.grpc(envelope(null, false), n -> null)), "inactive");
        assertFalse(p.isInactive());
        assertTrue(inactive.isInactive());
    }

    @Test
    void transparentRetryIsNoReplay() throws Exception {
        Process p = process(TRUST);
        byte[] raw = envelope(List.of(Fault.of(FaultKind.RESET)), false);
        assertNotNull(p.openScope(IncomingRequest.grpc(raw, n -> null)));
        assertNull(p.openScope(IncomingRequest.grpc(raw, n -> null)));
        assertNotNull(p.openScope(IncomingRequest.grpc(raw, Map.of("grpc-previous-rpc-attempts", "1")::get)));
        assertNull(p.openScope(IncomingRequest.grpc(raw, Map.of("grpc-previous-rpc-attempts", "nonsense")::get)));
    }

    @Test
    void bridgedRequestIsTracedAndReturnsNoHistory() throws Exception {
        Process p = process(TRUST);
        String text = Text.encodeBase64(envelope(List.of(Fault.of(FaultKind.STATUS).arg(5)), true));
        Map<String, String> headers = Map.of("baggage", "a=b,faultloom=" + text, "traceparent", Traceparent.format(5, 6, 77));
        Scope s = p.openScope(headers::get);
        assertEquals(77, s.envelope().hop.call);
        assertFalse(s.returnsHistory());
        OutgoingCall call = s.beginHttpCall(false, "b:1", "GET", "/x", true);
        assertEquals(FaultKind.STATUS, call.fault.kind);
        assertTrue(call.isBridged());
        assertEquals(Traceparent.format(1, 2, call.id), call.injectBridge(null, null).traceparent);
        assertEquals("kept", call.injectBridge("kept", null).traceparent);
        assertEquals("x=y,faultloom=" + call.header(), call.injectBridge(null, "x=y").baggage);
        assertNull(s.finish(1, 200, ""));
        assertNull(p.openScope(Map.of("baggage", "faultloom=" + text)::get), "no traceparent");
        assertNull(p.openScope(headers::get), "a replay");
        Map<String, String> both = new HashMap<>(headers);
        both.put("x-faultloom", Text.encodeBase64(envelope(null, false)));
        assertEquals(9, p.openScope(both::get).envelope().hop.call, "the direct carrier takes precedence");
    }

    @Test
    void requestWithoutBridgePermissionLeavesOtherHeadersUnchanged() throws Exception {
        Scope s = process(TRUST).openScope(IncomingRequest.grpc(envelope(null, false), n -> null));
        assertFalse(s.beginGrpcCall(false, "b:1", "/a/B", 100).isBridged());
    }

    @Test
    void longServiceNameIsTruncated() {
        assertEquals(64, new Process("x".repeat(99), Map.of(), new Receiver((TrustSettings) null)).service().length());
    }

    @Test
    void controlCharactersInServiceNameAreReplaced() {
        Map<String, String> names = Map.of("a\0b\u001f c\u007f\n", "a?b? c??", "\ud800\tb", "??b", "é\u0080", "é\u0080",
                "\n".repeat(63) + "é", "?".repeat(63));
        names.forEach((name, expected) ->
                assertEquals(expected, new Process(name, Map.of(), new Receiver((TrustSettings) null)).service()));
    }

    @Test
    void wrappedTaskKeepsItsScope() throws Exception {
        Scope s = Scopes.begin(Accept.NONE, 0);
        Scope[] current = new Scope[1];
        Runnable plain = () -> current[0] = CurrentScope.get();
        assertSame(plain, CurrentScope.wrap(plain));
        Runnable task;
        Callable<Scope> wrapped;
        try (CurrentScope.Binding outer = CurrentScope.bind(s)) {
            task = CurrentScope.wrap(plain);
            wrapped = CurrentScope.wrap((Callable<Scope>) CurrentScope::get);
            try (CurrentScope.Binding inner = CurrentScope.bind(null)) {
                assertNull(CurrentScope.get());
            }
            assertSame(s, CurrentScope.get());
        }
        assertNull(CurrentScope.get());
        task.run();
        assertSame(s, current[0]);
        assertSame(s, wrapped.call());
        assertNull(CurrentScope.get());
    }
}

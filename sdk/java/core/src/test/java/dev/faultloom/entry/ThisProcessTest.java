package dev.faultloom.entry;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.scope.Process;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class ThisProcessTest {
    @Test
    void peersAndPrograms() {
        Process p = ThisProcess.fromEnvironment(Map.of("FAULTLOOM_SERVICE", "front", "FAULTLOOM_PEERS", "127.0.0.1:1=a, [::1]:2=b,,=c,d=,e"));
        assertEquals("front", p.service());
        assertTrue(p.isInactive());
        assertEquals(List.of("a", "b", "x:1", "d", "e"),
                List.of(p.peerName("127.0.0.1:1"), p.peerName("[::1]:2"), p.peerName("x:1"), p.peerName("d"), p.peerName("e")));
        assertEquals("shop", ThisProcess.programName("/opt/app/shop.jar --port 80"));
        assertEquals("Main", ThisProcess.programName("com.example.Main x.y"));
        assertEquals("java", ThisProcess.programName(null));
    }
}

package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** gRPC with the Netty of the application. */
final class GrpcNettyTest extends GrpcCalls {
    GrpcNettyTest() {
        super("unshaded");
    }

    @ParameterizedTest
    @ValueSource(strings = {"Down", "Up", "Both"})
    void streamsReturnTheirHistory(String method) throws Exception {
        GrpcDriver.Reply reply = driver().send("Run", "stream " + back().address("grpc") + " " + method + " say one|say two");
        assertEquals("one+two OK", reply.text());
        assertEquals(List.of("/t.T/" + method + " > back: replied 0 child back"), Calls.of(reply.segment));
    }
}

package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Additional requirements on servlet containers. */
abstract class ServletContainers extends HttpServers {
    ServletContainers(String server) {
        super(server);
    }

    @Test
    void writersErrorsAndRedirectsReturnTheirHistory() throws Exception {
        for (String path : new String[] {"/x?way=writer", "/big/100000?way=writer", "/status/404?way=error", "/status/503?way=error", "/x?way=redirect", "/throw"}) {
            HttpDriver.Reply plain = driver().plain("GET", path, "");
            HttpDriver.Reply reply = driver().send("GET", path, "");
            assertEquals(plain.status, reply.status, path);
            assertEquals(plain.text(), reply.text(), path);
            assertEquals(plain.headers.firstValue("content-type"), reply.headers.firstValue("content-type"), path);
            assertNotNull(reply.segment, path);
            assertEquals(plain.status, reply.segment.events.get(reply.segment.events.size() - 1).status, path);
        }
    }

    @Test
    void asynchronousRequestsReturnTheirHistory() throws Exception {
        HttpDriver.Reply reply = driver().send("POST", "/run?way=async", "grpc nowhere.invalid:1 Run x", Fault.of(FaultKind.STATUS).arg(5));
        assertEquals("NOT_FOUND status 5 injected by Faultloom", reply.text());
        assertEquals(List.of("/t.T/Run > nowhere.invalid:1: replied 5 fault 0"), Calls.of(reply.segment));
        assertEquals(100_000, driver().send("GET", "/big/100000?way=async", "").body.length);
    }
}

package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import org.junit.jupiter.api.Test;

/** Spring MVC: the callee's name for a request is the pattern of its handler. */
final class SpringTest {
    /** Path of a request, its status, and the name. */
    private static final String[][] REQUESTS = {
        {"/shop/product", "200", "/shop/product"},
        {"/shop/product/OLJCESPC7Z?x=1", "200", "/shop/product/{id}"},
        {"/shop/product/special", "200", "/shop/product/special"},
        {"/shop/product/4711/number", "200", "/shop/product/{id}/number"},
        {"/shop/product/p/files/a/b", "200", "/shop/product/{id}/files/{*path}"},
        {"/shop/product/p/later", "200", "/shop/product/{id}/later"},
        {"/shop/product/p/forward", "200", "/shop/product/{id}/forward"},
        {"/shop/product/p/refused", "409", "/shop/product/{id}/refused"},
        {"/shop/product/p/throws", "500", "/shop/product/{id}/throws"},
        {"/shop/function/acme/p", "200", "/shop/function/{tenant}/{id}"},
        {"/shop/api/product/p", "200", "/shop/api/product/{id}"},
        {"/shop/nothing/77", "404", "/shop/nothing/{id}"},
    };

    @Test
    void nameIsThePatternOfTheHandler() throws Exception {
        try (Peer peer = Peer.traced("front").start("spring")) {
            HttpDriver driver = new HttpDriver(peer.address("spring"));
            for (String[] request : REQUESTS) {
                HttpDriver.Reply plain = driver.plain("GET", request[0], "");
                HttpDriver.Reply reply = driver.send("GET", request[0], "");
                assertEquals(Integer.parseInt(request[1]), plain.status, request[0]);
                assertEquals(plain.status, reply.status, request[0]);
                assertEquals(plain.text(), reply.text(), request[0]);
                assertNotNull(reply.segment, request[0]);
                assertEquals("GET " + request[2], reply.segment.name);
            }
            assertEquals("POST /shop/product/special", driver.send("POST", "/shop/product/special", "").segment.name);
        }
    }
}

package shop.service;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Server;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.health.v1.HealthGrpc;
import io.grpc.protobuf.services.HealthStatusManager;
import java.util.Map;
import org.junit.jupiter.api.Test;
import shop.ads.Ads;

class ServiceTest {
    @Test
    void invalidSettingsAreReported() {
        for (String port : new String[] {"", "x", "-1", "65536"}) {
            Exception e = assertThrows(IllegalArgumentException.class, () -> Service.address(Map.of("PORT", port)));
            assertTrue(e.getMessage().contains("PORT") && e.getMessage().contains("\"" + port + "\""), e.getMessage());
        }
    }

    @Test
    void listensOnLoopbackUnlessBindIsSet() {
        assertEquals("/127.0.0.1:7004", Service.address(Map.of("PORT", "7004")).toString());
        assertEquals("/0.0.0.0:7004", Service.address(Map.of("PORT", "7004", "BIND", "0.0.0.0")).toString());
    }

    @Test
    void healthServiceReplies() throws Exception {
        Server server = Service.server(Service.address(Map.of("PORT", "0")), new Ads(), new HealthStatusManager()).start();
        ManagedChannel channel = ManagedChannelBuilder.forAddress("127.0.0.1", server.getPort()).usePlaintext().build();
        try {
            assertEquals(ServingStatus.SERVING, HealthGrpc.newBlockingStub(channel).check(HealthCheckRequest.getDefaultInstance()).getStatus());
        } finally {
            channel.shutdownNow();
            server.shutdownNow();
        }
    }
}

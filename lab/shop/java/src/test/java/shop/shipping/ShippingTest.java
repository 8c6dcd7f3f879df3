package shop.shipping;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.grpc.ManagedChannel;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import shop.Shop.CartItem;
import shop.Shop.ShipRequest;
import shop.Shop.ShipmentList;
import shop.Shop.UserRequest;
import shop.ShippingGrpc;
import shop.ShippingGrpc.ShippingBlockingStub;

class ShippingTest {
    private static final CartItem MUGS = CartItem.newBuilder().setProductId("mug-01").setQuantity(2).build();
    private static final CartItem KITE = CartItem.newBuilder().setProductId("kite-09").setQuantity(1).build();

    private Server server;
    private ManagedChannel channel;
    private ShippingBlockingStub shipping;

    @BeforeEach
    void start() throws Exception {
        String name = InProcessServerBuilder.generateName();
        server = InProcessServerBuilder.forName(name).directExecutor().addService(new Shipping()).build().start();
        channel = InProcessChannelBuilder.forName(name).directExecutor().build();
        shipping = ShippingGrpc.newBlockingStub(channel);
    }

    @AfterEach
    void stop() {
        channel.shutdownNow();
        server.shutdownNow();
    }

    @Test
    void quoteCountsPieces() {
        assertEquals(0, Shipping.quote(List.of()).getHundredths());
        assertEquals(610, Shipping.quote(List.of(KITE)).getHundredths());
        assertEquals(850, Shipping.quote(List.of(MUGS, KITE)).getHundredths());
        assertEquals("USD", Shipping.quote(List.of()).getCurrency());
    }

    @Test
    void everyShipmentIsListed() {
        for (String user : List.of("ann", "bob", "ann")) {
            shipping.ship(ShipRequest.newBuilder().setOrderId("order-1").setUser(user).setAddress("Quay 1").addItems(MUGS).build());
        }
        ShipmentList list = shipping.listShipments(UserRequest.newBuilder().setUser("ann").build());
        assertEquals(2, list.getShipmentsCount());
        assertEquals(list.getShipments(0).getTrackingId(), list.getShipments(1).getTrackingId());
    }

    @Test
    void trackingIdIsDerivedFromTheOrder() {
        assertEquals("parcel-0bafe221", Shipping.trackingId("order-1"));
    }

    @Test
    void parcelRequiresAnAddressAndItems() {
        for (ShipRequest request : List.of(
                ShipRequest.newBuilder().setAddress("Quay 1").build(), ShipRequest.newBuilder().addItems(MUGS).build())) {
            StatusRuntimeException e = assertThrows(StatusRuntimeException.class, () -> shipping.ship(request));
            assertEquals(Status.Code.INVALID_ARGUMENT, e.getStatus().getCode());
        }
    }

    @Test
    void oldestShipmentBeyondAThousandIsDropped() {
        for (int i = 0; i <= 1000; i++) {
            shipping.ship(ShipRequest.newBuilder().setOrderId("order-" + i).setUser("ann").setAddress("Quay 1").addItems(KITE).build());
        }
        ShipmentList list = shipping.listShipments(UserRequest.newBuilder().setUser("ann").build());
        assertEquals(1000, list.getShipmentsCount());
        assertEquals("order-1", list.getShipments(0).getOrderId());
    }
}

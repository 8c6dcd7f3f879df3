package shop.shipping;

import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import shop.Shop.CartItem;
import shop.Shop.Money;
import shop.Shop.QuoteRequest;
import shop.Shop.ShipRequest;
import shop.Shop.Shipment;
import shop.Shop.ShipmentList;
import shop.Shop.UserRequest;
import shop.ShippingGrpc.ShippingImplBase;

/** Quotes and sends parcels. Keeps the last thousand shipments in memory. */
public final class Shipping extends ShippingImplBase {
    private static final long PARCEL_HUNDREDTHS = 490; // USD for any parcel
    private static final long PIECE_HUNDREDTHS = 120; // USD for each piece in it
    private static final int MAX_SHIPMENTS = 1000;

    private final Deque<Shipment> shipments = new ArrayDeque<>();

    /** The shipping price of the items, in USD. */
    static Money quote(List<CartItem> items) {
        long hundredths = items.isEmpty() ? 0 : PARCEL_HUNDREDTHS;
        for (CartItem item : items) {
            hundredths += PIECE_HUNDREDTHS * item.getQuantity();
        }
        return Money.newBuilder().setCurrency("USD").setHundredths(hundredths).build();
    }

    @Override
    public void getQuote(QuoteRequest request, StreamObserver<Money> reply) {
        reply.onNext(quote(request.getItemsList()));
        reply.onCompleted();
    }

    /**
     * Sends a parcel; its tracking id is derived from the order's id. Not idempotent: two requests send two parcels.
     * INVALID_ARGUMENT: no address or no items.
     */
    @Override
    public void ship(ShipRequest request, StreamObserver<Shipment> reply) {
        if (request.getAddress().isEmpty() || request.getItemsCount() == 0) {
            reply.onError(Status.INVALID_ARGUMENT.withDescription("a parcel needs an address and contents").asRuntimeException());
            return;
        }
        Shipment shipment = Shipment.newBuilder()
                .setTrackingId(trackingId(request.getOrderId()))
                .setOrderId(request.getOrderId())
                .setUser(request.getUser())
                .build();
        synchronized (shipments) {
            shipments.add(shipment);
            if (shipments.size() > MAX_SHIPMENTS) {
                shipments.remove();
            }
        }
        reply.onNext(shipment);
        reply.onCompleted();
    }

    static String trackingId(String orderId) {
        byte[] sum;
        try {
            sum = MessageDigest.getInstance("SHA-256").digest(orderId.getBytes(StandardCharsets.UTF_8));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // every Java platform has it
        }
        return String.format("parcel-%02x%02x%02x%02x", sum[0], sum[1], sum[2], sum[3]);
    }

    /** The shipments to a user, oldest first. */
    @Override
    public void listShipments(UserRequest request, StreamObserver<ShipmentList> reply) {
        ShipmentList.Builder list = ShipmentList.newBuilder();
        synchronized (shipments) {
            shipments.stream().filter(shipment -> shipment.getUser().equals(request.getUser())).forEach(list::addShipments);
        }
        reply.onNext(list.build());
        reply.onCompleted();
    }
}

package bookstore;

import bookstore.gen.DeliveryGrpc;
import bookstore.gen.Estimated;
import bookstore.gen.Parcel;
import bookstore.gen.Scheduled;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.atomic.AtomicInteger;

/** Estimates and schedules deliveries. */
final class Delivery extends DeliveryGrpc.DeliveryImplBase {
    /** Heavier parcels take a day longer. */
    private static final int HEAVY_GRAMS = 500;

    private final Weights weights;
    private final AtomicInteger scheduled = new AtomicInteger();

    Delivery(Weights weights) {
        this.weights = weights;
    }

    @Override
    public void estimate(Parcel parcel, StreamObserver<Estimated> reply) {
        int days;
        try {
            days = Zones.days(parcel.getBook()) + (weights.grams(parcel.getBook()) > HEAVY_GRAMS ? 1 : 0);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            reply.onError(Status.CANCELLED.asException());
            return;
        }
        reply.onNext(Estimated.newBuilder().setDays(days).build());
        reply.onCompleted();
    }

    @Override
    public void schedule(Parcel parcel, StreamObserver<Scheduled> reply) {
        String id = "parcel-" + scheduled.incrementAndGet();
        reply.onNext(Scheduled.newBuilder().setId(id).build());
        reply.onCompleted();
    }
}

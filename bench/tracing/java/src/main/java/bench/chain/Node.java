package bench.chain;

import bench.chain.v1.ChainGrpc;
import bench.chain.v1.ChainOuterClass.Parcel;
import bench.chain.v1.ChainOuterClass.Receipt;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;

/**
 * Forwards a parcel to the next service, if any, and returns the receipt with one more hop. With several calls, one
 * after the other, it returns the last receipt.
 */
final class Node extends ChainGrpc.ChainImplBase {
    private final ChainGrpc.ChainBlockingStub next;
    private final int calls;

    Node(ChainGrpc.ChainBlockingStub next, int calls) {
        this.next = next;
        this.calls = calls;
    }

    @Override
    public void forward(Parcel p, StreamObserver<Receipt> reply) {
        Receipt receipt;
        try {
            receipt = process(p);
        } catch (StatusRuntimeException e) {
            reply.onError(e);
            return;
        }
        reply.onNext(receipt);
        reply.onCompleted();
    }

    private Receipt process(Parcel p) {
        if (next == null) {
            return Receipt.newBuilder().setId(p.getId()).setHops(p.getHops() + 1).addAllItems(p.getItemsList()).build();
        }
        Receipt r = Receipt.getDefaultInstance();
        for (int i = 0; i < calls; i++) {
            Parcel parcel = Parcel.newBuilder().setId(p.getId()).setHops(p.getHops() + 1).addAllItems(p.getItemsList()).build();
            r = next.forward(parcel);
        }
        return Receipt.newBuilder().setId(r.getId()).setHops(r.getHops()).addAllItems(r.getItemsList()).build();
    }
}

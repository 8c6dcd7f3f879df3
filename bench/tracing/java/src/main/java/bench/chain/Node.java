package bench.chain;

import bench.chain.v1.ChainGrpc;
import bench.chain.v1.ChainOuterClass.Parcel;
import bench.chain.v1.ChainOuterClass.Receipt;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;

/** Passes a parcel on, if there is a next service, and hands back the receipt with one hop more. */
final class Node extends ChainGrpc.ChainImplBase {
    private final ChainGrpc.ChainBlockingStub next;

    Node(ChainGrpc.ChainBlockingStub next) {
        this.next = next;
    }

    @Override
    public void forward(Parcel p, StreamObserver<Receipt> reply) {
        Receipt receipt;
        try {
            receipt = answer(p);
        } catch (StatusRuntimeException e) {
            reply.onError(e);
            return;
        }
        reply.onNext(receipt);
        reply.onCompleted();
    }

    private Receipt answer(Parcel p) {
        if (next == null) {
            return Receipt.newBuilder().setId(p.getId()).setHops(p.getHops() + 1).addAllItems(p.getItemsList()).build();
        }
        Receipt r = next.forward(Parcel.newBuilder().setId(p.getId()).setHops(p.getHops() + 1).addAllItems(p.getItemsList()).build());
        return Receipt.newBuilder().setId(r.getId()).setHops(r.getHops()).addAllItems(r.getItemsList()).build();
    }
}

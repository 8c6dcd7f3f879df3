package shop.ads;

import io.grpc.stub.StreamObserver;
import java.util.Map;
import shop.AdsGrpc.AdsImplBase;
import shop.Shop.Ad;
import shop.Shop.AdList;
import shop.Shop.AdsRequest;

/** Picks advertisements by the viewed product, without randomness, so that a page is reproducible. */
public final class Ads extends AdsImplBase {
    /** The key for pages that do not show a single product. */
    static final String ON_OTHER_PAGES = "";

    static final Map<String, AdList> BY_PRODUCT = Map.of(
            ON_OTHER_PAGES, ad("lamp-02", "Longer evenings? The reading lamp is back in stock."),
            "mug-01", ad("book-04", "Tea goes well with an empty page: the field notebook."),
            "lamp-02", ad("plant-05", "Something green beside it: the window fern."),
            "book-04", ad("lamp-02", "Write on after dark: the reading lamp."),
            "chair-03", ad("clock-06", "A place to sit and a clock that does not tick."),
            "pan-08", ad("bag-07", "Bring the potatoes home in a market bag."),
            "kite-09", ad("bell-10", "Faster to the beach with a clear ring: the bicycle bell."));

    private static AdList ad(String productId, String text) {
        return AdList.newBuilder().addAds(Ad.newBuilder().setProductId(productId).setText(text)).build();
    }

    /** Returns at least one advertisement. */
    static AdList pick(String productId) {
        return BY_PRODUCT.getOrDefault(productId, BY_PRODUCT.get(ON_OTHER_PAGES));
    }

    @Override
    public void getAds(AdsRequest request, StreamObserver<AdList> reply) {
        reply.onNext(pick(request.getProductId()));
        reply.onCompleted();
    }
}

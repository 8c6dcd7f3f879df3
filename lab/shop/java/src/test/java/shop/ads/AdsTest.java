package shop.ads;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import shop.Shop.AdList;

class AdsTest {
    @Test
    void everyPageHasAnAdForAnotherProduct() {
        List<String> pages = new ArrayList<>(Ads.BY_PRODUCT.keySet());
        pages.add("no-such-product");
        for (String page : pages) {
            AdList ads = Ads.pick(page);
            assertEquals(1, ads.getAdsCount(), page);
            assertNotEquals(page, ads.getAds(0).getProductId());
            assertNotEquals("", ads.getAds(0).getText());
        }
    }

    @Test
    void pageWithoutProductHasTheSameAdAsAnUnknownProduct() {
        assertEquals(Ads.pick(Ads.ON_OTHER_PAGES), Ads.pick("no-such-product"));
    }
}

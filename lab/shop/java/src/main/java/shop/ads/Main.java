package shop.ads;

import shop.service.Service;

/** Serves the ads service. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws InterruptedException {
        Service.main("ads", new Ads());
    }
}

package shop.shipping;

import shop.service.Service;

/** Serves the shipping service. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws InterruptedException {
        Service.main("shipping", new Shipping());
    }
}

package bookstore;

/** Days of delivery by zone: from the distances between all places, which are computed at the first use. */
final class Zones {
    private static final int PLACES = 2500;
    private static final double KM_PER_DAY = 900;
    private static final int[] DAYS = days();

    private Zones() {}

    private static int[] days() {
        int[] days = new int[PLACES];
        for (int from = 0; from < PLACES; from++) {
            double farthest = 0;
            for (int to = 0; to < PLACES; to++) {
                farthest = Math.max(farthest, distanceKm(from, to));
            }
            days[from] = (int) Math.ceil(farthest / KM_PER_DAY);
        }
        return days;
    }

    private static double distanceKm(int from, int to) {
        double latitude = Math.toRadians(from % 50) - Math.toRadians(to % 50);
        double longitude = Math.toRadians(from / 50.0) - Math.toRadians(to / 50.0);
        double a = Math.pow(Math.sin(latitude / 2), 2)
                + Math.cos(Math.toRadians(from % 50)) * Math.cos(Math.toRadians(to % 50))
                        * Math.pow(Math.sin(longitude / 2), 2);
        return 2 * 6371 * Math.asin(Math.min(1, Math.sqrt(a)));
    }

    static int days(String book) {
        return DAYS[Math.floorMod(book.hashCode(), PLACES)];
    }
}

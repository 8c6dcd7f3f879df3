package dev.faultloom.wire;

/** Distinguishes IP addresses from host names, without a name lookup. */
final class IpAddress {
    private IpAddress() {}

    static boolean isIp(String host) {
        return host.indexOf(':') >= 0 ? isV6(host) : isV4(host, 0);
    }

    /** Four decimal numbers 0..255 without leading zeros. */
    private static boolean isV4(String host, int from) {
        int parts = 0;
        int at = from;
        while (true) {
            int start = at;
            int value = 0;
            while (at < host.length() && at - start < 3 && host.charAt(at) >= '0' && host.charAt(at) <= '9') {
                value = value * 10 + host.charAt(at++) - '0';
            }
            if (at == start || value > 255 || (at - start > 1 && host.charAt(start) == '0')) {
                return false;
            }
            parts++;
            if (at == host.length()) {
                return parts == 4;
            }
            if (parts == 4 || host.charAt(at++) != '.') {
                return false;
            }
        }
    }

    /**
     * Eight groups of up to four hex digits; {@code ::} may replace groups once; the last two may be an IPv4 address.
     */
    private static boolean isV6(String host) {
        int zone = host.indexOf('%');
        if (zone == host.length() - 1) {
            return false;
        }
        String text = zone < 0 ? host : host.substring(0, zone);
        int groups = 0;
        boolean gap = false;
        int at = 0;
        if (text.startsWith("::")) {
            gap = true;
            at = 2;
        }
        while (at < text.length()) {
            int start = at;
            while (at < text.length() && at - start < 4 && Text.digit(text.charAt(at)) >= 0) {
                at++;
            }
            if (at < text.length() && text.charAt(at) == '.') {
                groups += 2;
                return isV4(text, start) && (gap ? groups < 8 : groups == 8);
            }
            if (at == start) {
                return false;
            }
            groups++;
            if (at == text.length()) {
                break;
            }
            if (text.charAt(at++) != ':' || at == text.length()) {
                return false;
            }
            if (text.charAt(at) == ':') {
                if (gap) {
                    return false;
                }
                gap = true;
                at++;
            }
        }
        return gap ? groups < 8 : groups == 8;
    }
}

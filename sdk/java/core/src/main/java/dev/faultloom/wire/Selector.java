package dev.faultloom.wire;

import java.util.Objects;

/** Selects sends; an empty part matches anything. */
public final class Selector {
    /** Matches every send. */
    public static final Selector ANY = new Selector("", "", "");

    /** Service name of the sender. */
    public final String caller;
    /** Peer name, its host, or the first label of its host. */
    public final String callee;
    /**
     * The full name, the part after the name's last {@code /}, or a template with <code>*</code> or <code>{…}</code>
     * parts.
     */
    public final String call;

    /** An empty part matches anything. */
    public Selector(String caller, String callee, String call) {
        this.caller = Objects.requireNonNull(caller);
        this.callee = Objects.requireNonNull(callee);
        this.call = Objects.requireNonNull(call);
    }

    /** Whether a send of {@code sender} to {@code peer} matches. {@code name}: gRPC method, or {@code METHOD /path}. */
    public boolean matches(String sender, String peer, String name) {
        return (caller.isEmpty() || caller.equals(sender))
                && (callee.isEmpty() || calleeMatches(callee, peer))
                && (call.isEmpty() || callMatches(call, name));
    }

    private static boolean calleeMatches(String callee, String peer) {
        if (callee.equals(peer)) {
            return true;
        }
        String host = hostOf(peer);
        if (callee.equals(host)) {
            return true;
        }
        int dot = host.indexOf('.');
        String label = dot < 0 ? host : host.substring(0, dot);
        return callee.equals(label) && !IpAddress.isIp(host);
    }

    private static String hostOf(String peer) {
        if (peer.startsWith("[")) {
            int end = peer.indexOf(']');
            return peer.substring(1, end < 0 ? peer.length() : end);
        }
        int colon = peer.lastIndexOf(':');
        return colon >= 0 && peer.indexOf(':') == colon ? peer.substring(0, colon) : peer;
    }

    private static boolean callMatches(String call, String name) {
        if (call.equals(name)) {
            return true;
        }
        if (call.indexOf('/') < 0 && call.indexOf(' ') < 0) {
            int last = name.lastIndexOf('/');
            return last >= 0 && name.length() - last - 1 == call.length() && name.endsWith(call);
        }
        int at = 0;
        int in = 0;
        while (true) {
            int end = call.indexOf('/', at);
            int stop = name.indexOf('/', in);
            if (end < 0 != stop < 0) {
                return false;
            }
            int selectorLength = (end < 0 ? call.length() : end) - at;
            int nameLength = (stop < 0 ? name.length() : stop) - in;
            if (!isWildcard(call, at, selectorLength) && (selectorLength != nameLength || !call.regionMatches(at, name, in, selectorLength))) {
                return false;
            }
            if (end < 0) {
                return true;
            }
            at = end + 1;
            in = stop + 1;
        }
    }

    private static boolean isWildcard(String call, int at, int length) {
        return (length == 1 && call.charAt(at) == '*')
                || (length >= 2 && call.charAt(at) == '{' && call.charAt(at + length - 1) == '}');
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Selector && caller.equals(((Selector) other).caller)
                && callee.equals(((Selector) other).callee) && call.equals(((Selector) other).call);
    }

    @Override
    public int hashCode() {
        return Objects.hash(caller, callee, call);
    }

    @Override
    public String toString() {
        return caller + ">" + callee + "/" + call;
    }
}

package dev.faultloom.scope;

import dev.faultloom.wire.Names;
import dev.faultloom.wire.Text;
import java.util.Objects;

/** A call that belonged to no request. Equal ones are counted together. */
public final class UnscopedCall {
    /** Name and peer of the calls that are not listed. */
    static final UnscopedCall OTHERS = new UnscopedCall(false, "other", "other", "");

    final boolean http;
    final String peer;
    final String name;
    final String site;

    /**
     * @param peer name of the callee, or its authority
     * @param name gRPC method, or {@code METHOD /path}, normalized
     * @param site where the program made the call, or empty
     */
    public UnscopedCall(boolean http, String peer, String name, String site) {
        this.http = http;
        this.peer = Scope.recordedText(peer);
        this.name = Scope.recordedText(name);
        this.site = Text.truncate(site, Names.MAX_NAME_BYTES);
    }

    @Override
    public boolean equals(Object o) {
        if (!(o instanceof UnscopedCall)) {
            return false;
        }
        UnscopedCall other = (UnscopedCall) o;
        return http == other.http && peer.equals(other.peer) && name.equals(other.name) && site.equals(other.site);
    }

    @Override
    public int hashCode() {
        return Objects.hash(http, peer, name, site);
    }
}

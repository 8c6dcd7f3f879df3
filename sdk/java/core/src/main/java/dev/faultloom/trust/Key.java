package dev.faultloom.trust;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static java.nio.charset.StandardCharsets.UTF_8;

import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Pool;
import dev.faultloom.wire.UnverifiedEnvelope;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Signs and verifies envelopes. Safe for concurrent use. */
public final class Key {
    /** The length of a key's secret. */
    public static final int BYTES = 32;
    private static final String ALGORITHM = "HmacSHA256";
    private static final byte[] DOMAIN = Envelope.SIGNATURE_DOMAIN.getBytes(US_ASCII);

    /** 1 to 32 bytes. */
    public final String id;
    /** Whether this key may sign plans; a trace key only requests histories. */
    public final boolean fault;
    private final byte[] idBytes;
    private final Pool<KeyedMac> macs;

    /**
     * Throws IllegalArgumentException if the id or the secret has a wrong length. The message does not contain the
     * secret.
     */
    public Key(String id, boolean fault, byte[] secret) {
        this.id = id;
        this.fault = fault;
        this.idBytes = id.getBytes(UTF_8);
        if (secret.length != BYTES || idBytes.length == 0 || idBytes.length > Envelope.MAX_KEY_ID_BYTES) {
            throw new IllegalArgumentException("a key has " + BYTES + " bytes and an id of 1 to 32");
        }
        Mac keyed = newMac(secret);
        this.macs = new Pool<>(() -> new KeyedMac(keyed));
    }

    private static Mac newMac(byte[] secret) {
        try {
            Mac mac = Mac.getInstance(ALGORITHM);
            mac.init(new SecretKeySpec(secret, ALGORITHM));
            return mac;
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("this Java has no " + ALGORITHM, e);
        }
    }

    boolean matchesKeyId(UnverifiedEnvelope envelope) {
        return envelope.hasKeyId(idBytes);
    }

    /** The 16 signature bytes of a signed part. */
    public byte[] sign(byte[] part) {
        KeyedMac mac = macs.acquire();
        byte[] signature = Arrays.copyOf(mac.sum(part, 0, part.length), Envelope.SIGNATURE_BYTES);
        macs.release(mac);
        return signature;
    }

    /** Whether the envelope was signed with this key. Compares in constant time. */
    boolean verifies(UnverifiedEnvelope envelope) {
        KeyedMac mac = macs.acquire();
        byte[] sum = mac.sum(envelope.raw, envelope.signedPart, envelope.signedPartLength);
        int difference = 0;
        for (int i = 0; i < Envelope.SIGNATURE_BYTES; i++) {
            difference |= sum[i] ^ envelope.raw[envelope.signature + i];
        }
        macs.release(mac);
        return difference == 0;
    }

    /** A keyed MAC for reuse: creating one costs more than a signature. */
    private static final class KeyedMac {
        private final Mac mac;
        private final byte[] sum = new byte[32];

        KeyedMac(Mac keyed) {
            mac = copy(keyed);
        }

        private static Mac copy(Mac keyed) {
            try {
                synchronized (keyed) {
                    return (Mac) keyed.clone();
                }
            } catch (CloneNotSupportedException e) {
                throw new IllegalStateException(ALGORITHM + " of this Java cannot be used by several threads", e);
            }
        }

        byte[] sum(byte[] b, int from, int n) {
            try {
                mac.update(DOMAIN);
                mac.update(b, from, n);
                mac.doFinal(sum, 0);
                return sum;
            } catch (GeneralSecurityException e) {
                throw new IllegalStateException(e);
            }
        }
    }
}

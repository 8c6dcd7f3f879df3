package dev.faultloom.trust;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Text;
import dev.faultloom.wire.UnverifiedEnvelope;
import java.util.ArrayList;
import java.util.List;
import java.util.StringTokenizer;

/** The parsed contents of a trust file. Immutable: a changed file yields a new instance. */
public final class TrustSettings {
    /** Settings that cannot be parsed. The message names the line and never contains a key. */
    public static final class Invalid extends Exception {
        private static final long serialVersionUID = 1;

        /** The line number from 1, or 0 if a required line is missing. */
        public final int line;

        Invalid(int line, String message) {
            super("trust settings" + (line > 0 ? ", line " + line : "") + ": " + message);
            this.line = line;
        }
    }

    public final String environment;
    /** False: no fault fires at this service. */
    public final boolean faultsEnabled;
    /** In the order of the text; unmodifiable. */
    public final List<Key> keys;
    private final byte[] environmentBytes;

    private TrustSettings(String environment, boolean faultsEnabled, List<Key> keys) {
        this.environment = environment;
        this.faultsEnabled = faultsEnabled;
        this.keys = List.copyOf(keys);
        this.environmentBytes = environment.getBytes(UTF_8);
    }

    /** Parses the text form. Lines are separated by line feeds or {@code ;}. */
    public static TrustSettings parse(String text) throws Invalid {
        String environment = null;
        boolean faultsEnabled = true;
        List<Key> keys = new ArrayList<>();
        int number = 0;
        for (int at = 0; at <= text.length(); number++) {
            int end = at;
            while (end < text.length() && text.charAt(end) != '\n' && text.charAt(end) != ';') {
                end++;
            }
            String[] words = words(text.substring(at, end));
            at = end + 1;
            if (words.length == 0 || words[0].startsWith("#")) {
                continue;
            }
            String form = words[0] + " " + words.length;
            if (form.equals("environment 2") && Text.utf8Length(words[1]) <= Envelope.MAX_ENVIRONMENT_BYTES) {
                environment = words[1];
            } else if (form.equals("faults 2") && (words[1].equals("on") || words[1].equals("off"))) {
                faultsEnabled = words[1].equals("on");
            } else if (form.equals("key 4") && (words[1].equals("trace") || words[1].equals("fault"))) {
                keys.add(key(number + 1, words));
            } else {
                throw new Invalid(number + 1, "expected one of: environment NAME, key trace|fault ID HEX, faults on|off");
            }
        }
        if (environment == null) {
            throw new Invalid(0, "missing line: environment NAME");
        }
        return new TrustSettings(environment, faultsEnabled, keys);
    }

    private static Key key(int line, String[] words) throws Invalid {
        byte[] secret = Text.decodeHex(words[3]);
        if (secret == null || secret.length != Key.BYTES) {
            throw new Invalid(line, "a key has " + 2 * Key.BYTES + " hex digits");
        }
        try {
            return new Key(words[2], words[1].equals("fault"), secret);
        } catch (IllegalArgumentException e) {
            throw new Invalid(line, e.getMessage());
        }
    }

    private static String[] words(String line) {
        StringTokenizer tokens = new StringTokenizer(line);
        String[] words = new String[tokens.countTokens()];
        for (int i = 0; i < words.length; i++) {
            words[i] = tokens.nextToken();
        }
        return words;
    }

    /** The first fault key or the first trace key, or null. */
    public Key signingKey(boolean fault) {
        for (Key key : keys) {
            if (key.fault == fault) {
                return key;
            }
        }
        return null;
    }

    Key findKey(UnverifiedEnvelope envelope) {
        for (int i = 0; i < keys.size(); i++) {
            if (keys.get(i).matchesKeyId(envelope)) {
                return keys.get(i);
            }
        }
        return null;
    }

    boolean matchesEnvironment(UnverifiedEnvelope envelope) {
        return envelope.hasEnvironment(environmentBytes);
    }
}

package example.peer;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** The key and certificate in the file {@code -Djavax.net.ssl.keyStore}, which clients trust as well. */
final class Tls {
    static final String FILE = System.getProperty("javax.net.ssl.keyStore");
    static final String PASSWORD = System.getProperty("javax.net.ssl.keyStorePassword");

    private Tls() {}

    static KeyManagerFactory keys() throws GeneralSecurityException, IOException {
        KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        factory.init(store(), PASSWORD.toCharArray());
        return factory;
    }

    static SSLContext context() throws GeneralSecurityException, IOException {
        TrustManagerFactory trusted = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trusted.init(store());
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys().getKeyManagers(), trusted.getTrustManagers(), null);
        return context;
    }

    private static KeyStore store() throws GeneralSecurityException, IOException {
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(Path.of(FILE))) {
            store.load(in, PASSWORD.toCharArray());
        }
        return store;
    }
}

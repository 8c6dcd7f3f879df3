package dev.faultloom.agent;

import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** A certificate for this host that is its own authority, with its key, in a file for Java's programs. */
final class Certificate {
    private static final String PASSWORD = "changeit";

    private final Path file;

    private Certificate(Path file) {
        this.file = file;
    }

    /** Creates one with the JDK's tool. */
    static Certificate create() throws Exception {
        Path folder = Files.createTempDirectory("tls");
        Path file = folder.resolve("keys.p12");
        folder.toFile().deleteOnExit();
        file.toFile().deleteOnExit();
        java.lang.Process tool = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "keytool").toString(), "-genkeypair",
                "-keyalg", "EC", "-alias", "test", "-dname", "CN=localhost", "-ext", "SAN=IP:127.0.0.1", "-storetype", "PKCS12",
                "-keystore", file.toString(), "-storepass", PASSWORD).redirectErrorStream(true).start();
        String output = new String(tool.getInputStream().readAllBytes());
        if (tool.waitFor() != 0) {
            throw new IllegalStateException(output);
        }
        Certificate created = new Certificate(file);
        KeyStore store = created.store();
        store.setCertificateEntry("trusted", store.getCertificate("test")); // Tomcat trusts no certificate that has a key
        try (OutputStream out = Files.newOutputStream(file)) {
            store.store(out, PASSWORD.toCharArray());
        }
        return created;
    }

    private KeyStore store() throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(file)) {
            store.load(in, PASSWORD.toCharArray());
        }
        return store;
    }

    /** Options for a program that has the key and trusts the certificate. */
    String[] options() {
        return new String[] {"-Djavax.net.ssl.keyStore=" + file, "-Djavax.net.ssl.keyStorePassword=" + PASSWORD,
            "-Djavax.net.ssl.trustStore=" + file, "-Djavax.net.ssl.trustStorePassword=" + PASSWORD};
    }

    SSLContext context() throws Exception {
        TrustManagerFactory trusted = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trusted.init(store());
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trusted.getTrustManagers(), null);
        return context;
    }
}

package example.peer;

import java.nio.file.Files;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.net.SSLHostConfig;
import org.apache.tomcat.util.net.SSLHostConfigCertificate;

/** Embedded Tomcat, with {@code jakarta.servlet}. */
final class TomcatService {
    private TomcatService() {}

    static int start() throws Exception {
        return start(false);
    }

    static int startSecure() throws Exception {
        return start(true);
    }

    private static int start(boolean isSecure) throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(Files.createTempDirectory("tomcat").toString());
        tomcat.setHostname("127.0.0.1");
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        if (isSecure) {
            SSLHostConfig host = new SSLHostConfig();
            SSLHostConfigCertificate certificate = new SSLHostConfigCertificate(host, SSLHostConfigCertificate.Type.UNDEFINED);
            certificate.setCertificateKeystoreFile(Tls.FILE);
            certificate.setCertificateKeystorePassword(Tls.PASSWORD);
            host.addCertificate(certificate);
            tomcat.getConnector().setSecure(true);
            tomcat.getConnector().setScheme("https");
            tomcat.getConnector().setProperty("SSLEnabled", "true");
            tomcat.getConnector().addSslHostConfig(host);
        }
        Context context = tomcat.addContext("", null);
        Tomcat.addServlet(context, "answers", new TomcatServlet()).setAsyncSupported(true);
        context.addServletMappingDecoded("/*", "answers");
        tomcat.start();
        return tomcat.getConnector().getLocalPort();
    }
}

package example.peer;

import java.nio.file.Files;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;

/** Embedded Tomcat, with {@code jakarta.servlet}. */
final class TomcatService {
    private TomcatService() {}

    static int start() throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(Files.createTempDirectory("tomcat").toString());
        tomcat.setHostname("127.0.0.1");
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        Context context = tomcat.addContext("", null);
        Tomcat.addServlet(context, "answers", new TomcatServlet()).setAsyncSupported(true);
        context.addServletMappingDecoded("/*", "answers");
        tomcat.start();
        return tomcat.getConnector().getLocalPort();
    }
}

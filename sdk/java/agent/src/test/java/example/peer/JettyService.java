package example.peer;

import java.net.InetSocketAddress;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Embedded Jetty, with {@code javax.servlet}. */
final class JettyService {
    private JettyService() {}

    static int start() throws Exception {
        Server server = new Server(new InetSocketAddress("127.0.0.1", 0));
        ServletContextHandler context = new ServletContextHandler();
        ServletHolder holder = new ServletHolder(new JettyServlet());
        holder.setAsyncSupported(true);
        context.addServlet(holder, "/*");
        server.setHandler(context);
        server.start();
        return ((ServerConnector) server.getConnectors()[0]).getLocalPort();
    }
}

package example.peer;

import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;
import org.eclipse.jetty.util.ssl.SslContextFactory;

/** Embedded Jetty, with {@code javax.servlet}. */
final class JettyService {
    private JettyService() {}

    static int start() throws Exception {
        return start(null);
    }

    static int startSecure() throws Exception {
        SslContextFactory.Server tls = new SslContextFactory.Server();
        tls.setSslContext(Tls.context());
        return start(tls);
    }

    /** {@code tls}: or null. */
    private static int start(SslContextFactory.Server tls) throws Exception {
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server, tls);
        connector.setHost("127.0.0.1");
        server.addConnector(connector);
        ServletContextHandler context = new ServletContextHandler();
        ServletHolder holder = new ServletHolder(new JettyServlet());
        holder.setAsyncSupported(true);
        context.addServlet(holder, "/*");
        server.setHandler(context);
        server.start();
        return connector.getLocalPort();
    }
}

package example.peer;

import java.util.ArrayList;
import java.util.List;

/** A service without the SDK: {@code Main [grpc] …} starts these servers, which run the scripts in requests. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        Elsewhere.prepare();
        List<String> ports = new ArrayList<>();
        try {
            for (String argument : arguments) {
                ports.add(argument + "=" + start(argument));
            }
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1); // threads of servers that did start keep the process alive
        }
        System.out.println("ready " + String.join(" ", ports));
        // the parent process closes our standard input, or exits
        while (System.in.read() >= 0) { }
        System.exit(0);
    }

    private static int start(String server) throws Exception {
        switch (server) {
            case "grpc":
                return GrpcService.start();
            case "http":
                return HttpService.start();
            case "tomcat":
                return TomcatService.start();
            case "spring":
                return SpringService.start();
            case "https":
                return HttpService.startSecure();
            case "tomcat-tls":
                return TomcatService.startSecure();
            case "jetty-tls":
                return JettyService.startSecure();
            case "webflux":
                return WebFluxService.start();
            case "webflux-tls":
                return WebFluxService.startSecure();
            case "jetty":
                return JettyService.start();
            default:
                throw new IllegalArgumentException(server);
        }
    }
}

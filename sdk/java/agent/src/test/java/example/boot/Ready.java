package example.boot;

import java.io.IOException;
import org.springframework.boot.web.context.WebServerInitializedEvent;
import org.springframework.context.ApplicationListener;

/** Reports the port to the parent process, and ends this one with it. */
public final class Ready implements ApplicationListener<WebServerInitializedEvent> {
    @Override
    public void onApplicationEvent(WebServerInitializedEvent event) {
        System.out.println("ready boot=" + event.getWebServer().getPort());
        Thread waiting = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (IOException e) {
                // the parent process has ended
            }
            Runtime.getRuntime().halt(0);
        });
        waiting.setDaemon(true);
        waiting.start();
    }
}

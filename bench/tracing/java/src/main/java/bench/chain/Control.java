package bench.chain;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.concurrent.TimeUnit;

/**
 * Prints the ready line, and then executes commands until standard input ends.
 *
 * <pre>
 * cpu      {"cpu_us": user and system time of this process so far}
 * flush    OpenTelemetry exports its pending batches, so that their cost does not fall into the next measurement
 * </pre>
 */
final class Control {
    private static final int FLUSH_SECONDS = 10;

    private Control() {}

    static void run(String ready) throws IOException {
        System.out.println(ready);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("cpu")) {
                System.out.println("{\"cpu_us\":" + cpuUs() + "}");
            } else if (line.equals("flush")) {
                flush();
                System.out.println("{}");
            } else if (!line.isEmpty()) {
                throw new IOException("unknown command " + line);
            }
        }
    }

    private static long cpuUs() {
        OperatingSystemMXBean system = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
        return TimeUnit.NANOSECONDS.toMicros(system.getProcessCpuTime());
    }

    /** Uses an entry point of OpenTelemetry's agent for functions that are frozen between requests. */
    private static void flush() throws IOException {
        try {
            Class.forName("io.opentelemetry.javaagent.bootstrap.OpenTelemetrySdkAccess", true, null)
                    .getMethod("forceFlush", long.class, TimeUnit.class).invoke(null, (long) FLUSH_SECONDS, TimeUnit.SECONDS);
        } catch (ReflectiveOperationException e) {
            throw new IOException("flush: OpenTelemetry's agent is not loaded", e);
        }
    }
}

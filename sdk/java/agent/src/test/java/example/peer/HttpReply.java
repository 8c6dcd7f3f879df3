package example.peer;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The replies of this service to HTTP requests, for all servers:
 *
 * <pre>
 * /run          runs the script in the body and replies with its results
 * /big/N        N bytes
 * /binary/N     N bytes, of all values
 * /fan/N        runs the script in the body N times and replies "done"
 * /chunked/N    N bytes of unknown length; /flushed/N: each chunk flushed
 * /later/N      N bytes, flushed; then runs the script in the body
 * /events/N     the same as text/event-stream
 * /status/N     this status, with a short body
 * /throw        throws
 * </pre>
 */
final class HttpReply {
    int status = 200;
    byte[] body = new byte[0];
    boolean chunked;
    boolean flushes;
    String after = "";
    final Map<String, String> headers = new LinkedHashMap<>();

    static HttpReply to(String path, String body) {
        HttpReply reply = new HttpReply();
        String[] parts = path.split("/");
        int number = parts.length > 2 && parts[2].matches("[0-9]{1,8}") ? Integer.parseInt(parts[2]) : 0;
        reply.headers.put("Content-Type", "text/plain");
        switch (parts.length > 1 ? parts[1] : "") {
            case "run":
                reply.body = Script.run(body).getBytes(UTF_8);
                break;
            case "big":
                reply.body = "x".repeat(number).getBytes(UTF_8);
                break;
            case "binary":
                reply.body = new byte[number];
                for (int i = 0; i < number; i++) {
                    reply.body[i] = (byte) (i * 7);
                }
                break;
            case "fan":
                for (int i = 0; i < number; i++) {
                    Script.run(body);
                }
                reply.body = "done".getBytes(UTF_8);
                break;
            case "chunked":
            case "flushed":
            case "later":
            case "events":
                reply.body = "y".repeat(number).getBytes(UTF_8);
                reply.chunked = true;
                reply.flushes = !parts[1].equals("chunked");
                reply.after = parts[1].equals("later") ? body : "";
                if (parts[1].equals("events")) {
                    reply.headers.put("Content-Type", "text/event-stream");
                }
                break;
            case "status":
                reply.status = number;
                reply.body = number == 204 ? new byte[0] : ("status " + number).getBytes(UTF_8);
                break;
            case "throw":
                throw new IllegalStateException("thrown");
            default:
                reply.body = path.getBytes(UTF_8);
        }
        return reply;
    }
}

package example.peer;

import java.util.ArrayList;
import java.util.List;

/**
 * The script in a request: one step per line, each {@code VERB arguments…}. The reply has one line per step:
 * its result.
 */
final class Script {
    private Script() {}

    static String run(String script) {
        List<String> results = new ArrayList<>();
        for (String line : script.split("\n")) {
            if (!line.isEmpty()) {
                results.add(step(line.split(" ", 4)));
            }
        }
        return String.join("\n", results);
    }

    private static String rest(String[] words) {
        return words[2] + (words.length > 3 ? " " + words[3] : "");
    }

    private static String step(String[] words) {
        switch (words[0]) {
            case "say":
                return words[1];
            case "sleep":
                try {
                    Thread.sleep(Long.parseLong(words[1]));
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
                return "slept";
            case "wait":
                return Gate.await(words[1]);
            case "open":
                Gate.open(words[1]);
                return "opened";
            case "grpc":
                return GrpcClient.unary(words[1], words[2], words.length > 3 ? words[3].replace('|', '\n') : "");
            case "stream":
                return GrpcClient.stream(words[1], words[2], words.length > 3 ? words[3].replace('|', '\n') : "");
            case "twice":
                return GrpcClient.twice(words[1], words[2], words[3]);
            case "http":
                String[] rest = words[3].split(" ", 2);
                return HttpClients.call(words[1], words[2], rest[0], rest.length > 1 ? rest[1].replace('|', '\n') : "");
            case "in":
                return Elsewhere.run(words[1], () -> step(rest(words).split(" ", 4)));
            default:
                return "no such step: " + words[0];
        }
    }
}

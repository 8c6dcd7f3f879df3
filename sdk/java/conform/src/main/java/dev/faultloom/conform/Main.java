package dev.faultloom.conform;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Computes the vectors of {@code spec/README.md} with this SDK and prints one line for each, sorted by name, good
 * vectors first. It uses only kind and input of a vector, never the expected result.
 */
public final class Main {
    private Main() {}

    /** The only argument is the folder of the vectors. Exit codes: 0, 1 a vector cannot be computed, 2 usage. */
    public static void main(String[] arguments) {
        if (arguments.length != 1) {
            System.err.println("usage: dev.faultloom.conform.Main VECTOR-FOLDER");
            System.exit(2);
        }
        try {
            PrintStream out = new PrintStream(System.out, false, "UTF-8");
            for (Path file : vectors(Paths.get(arguments[0]))) {
                out.println(name(file) + " " + compute(file));
            }
            out.flush();
        } catch (Exception e) {
            System.err.println("faultloom conform: " + e);
            System.exit(1);
        }
    }

    static List<Path> vectors(Path root) throws IOException {
        List<Path> all = new ArrayList<>();
        for (String group : List.of("good", "bad")) {
            try (Stream<Path> files = Files.list(root.resolve(group))) {
                List<Path> found = files.filter(f -> f.toString().endsWith(".json")).sorted().collect(Collectors.toList());
                if (found.isEmpty()) {
                    throw new IOException("no vectors in " + root.resolve(group));
                }
                all.addAll(found);
            }
        }
        return all;
    }

    static String name(Path file) {
        String base = file.getFileName().toString();
        return file.getParent().getFileName() + "/" + base.substring(0, base.length() - ".json".length());
    }

    static String compute(Path file) throws Exception {
        Input vector = new Input(Json.parse(new String(Files.readAllBytes(file), UTF_8)));
        Kinds.Kind kind = Kinds.ALL.get(vector.text("kind"));
        if (kind == null) {
            throw new IllegalArgumentException(name(file) + ": unknown kind " + vector.text("kind"));
        }
        try {
            return Json.write(kind.result(vector.in("input")));
        } catch (Exception e) {
            throw new IllegalStateException(name(file), e);
        }
    }
}

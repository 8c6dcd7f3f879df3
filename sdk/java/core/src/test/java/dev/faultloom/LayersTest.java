package dev.faultloom;

import static java.util.stream.Collectors.toList;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Packages use each other in one direction, and one class distinguishes the kinds of faults. */
class LayersTest {
    /** By package, the packages that it may use. {@code Version} is a class of the root package. */
    private static final Map<String, Set<String>> ALLOWED = Map.of(
            "wire", Set.of("wire"),
            "trust", Set.of("wire", "trust"),
            "scope", Set.of("wire", "trust", "scope"),
            "entry", Set.of("wire", "trust", "scope", "entry", "Version"),
            "hooks.faults", Set.of("wire", "scope", "hooks.faults"));

    /** A class of this SDK in an import or a full name: its package below dev.faultloom, and its name. */
    private static final Pattern CLASS = Pattern.compile("\\bdev\\.faultloom((?:\\.[a-z]+)*)\\.([A-Z]\\w*)");

    private static final Pattern PACKAGE = Pattern.compile("(?m)^package dev\\.faultloom((?:\\.[a-z]+)*);");

    /** The sources of all Maven modules, by path. */
    private static Map<Path, String> sources() throws IOException {
        Map<Path, String> sources = new TreeMap<>();
        for (String module : List.of("core", "conform", "hooks", "agent")) {
            try (Stream<Path> files = Files.walk(Path.of("..", module, "src", "main", "java"))) {
                for (Path file : files.filter(f -> f.toString().endsWith(".java")).collect(toList())) {
                    sources.put(file, Files.readString(file));
                }
            }
        }
        return sources;
    }

    /** A package, or a class of the root package. {@code packageName} is empty or begins with a dot. */
    private static String node(String packageName, String className) {
        return packageName.isEmpty() ? className : packageName.substring(1);
    }

    /** By package or class of the root package, what it uses. */
    private static Map<String, Set<String>> graph() throws IOException {
        Map<String, Set<String>> graph = new TreeMap<>();
        for (Map.Entry<Path, String> source : sources().entrySet()) {
            Matcher own = PACKAGE.matcher(source.getValue());
            assertTrue(own.find(), source.getKey().toString());
            String className = source.getKey().getFileName().toString().replace(".java", "");
            Set<String> used = graph.computeIfAbsent(node(own.group(1), className), n -> new TreeSet<>());
            Matcher match = CLASS.matcher(source.getValue());
            while (match.find()) {
                used.add(node(match.group(1), match.group(2)));
            }
        }
        return graph;
    }

    /** The nodes of one cycle in order, the first one again at the end; null if there is none. */
    private static List<String> cycleIn(Map<String, Set<String>> graph) {
        Set<String> finished = new HashSet<>();
        for (String node : graph.keySet()) {
            List<String> cycle = cycleFrom(node, graph, new ArrayList<>(), finished);
            if (cycle != null) {
                return cycle;
            }
        }
        return null;
    }

    private static List<String> cycleFrom(
            String node, Map<String, Set<String>> graph, List<String> path, Set<String> finished) {
        int at = path.indexOf(node);
        path.add(node);
        if (at >= 0) {
            return path.subList(at, path.size());
        }
        for (String used : finished.contains(node) ? Set.<String>of() : graph.getOrDefault(node, Set.of())) {
            List<String> cycle = used.equals(node) ? null : cycleFrom(used, graph, path, finished);
            if (cycle != null) {
                return cycle;
            }
        }
        finished.add(node);
        path.remove(path.size() - 1);
        return null;
    }

    @Test
    void packagesUseEachOtherInOneDirection() throws IOException {
        Map<String, Set<String>> graph = graph();
        ALLOWED.forEach((name, allowed) -> {
            Set<String> forbidden = new TreeSet<>(graph.get(name));
            forbidden.removeAll(allowed);
            assertEquals(Collections.emptySet(), forbidden, name);
        });
        assertTrue(graph.get("hooks.grpc").contains("hooks.faults"));
        assertNull(cycleIn(graph));
    }

    @Test
    void aCycleIsFoundBehindPackagesThatAreNotPartOfIt() {
        Map<String, Set<String>> graph = new TreeMap<>(
                Map.of("a", Set.of("a", "b", "c"), "b", Set.of(), "c", Set.of("b", "d"), "d", Set.of("c")));
        assertEquals(List.of("c", "d", "c"), cycleIn(graph));
        graph.put("d", Set.of("b"));
        assertNull(cycleIn(graph));
    }

    @Test
    void onlyTheDispatcherNamesKindsOfFaults() throws IOException {
        Pattern kind = Pattern.compile("\\bFaultKind\\.[A-Z]");
        Set<String> naming = new TreeSet<>();
        sources().forEach((file, text) -> {
            if (kind.matcher(text).find()) {
                naming.add(file.getFileName().toString());
            }
        });
        assertEquals(Set.of("Faults.java"), naming);
    }
}

package dev.faultloom.conform;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

class VectorsTest {
    private static final Path VECTORS = Paths.get("../../../spec/vectors");

    @TestFactory
    Stream<DynamicTest> vectorsMatchTheReference() throws IOException {
        Assumptions.assumeTrue(Files.isDirectory(VECTORS), "the vectors are missing");
        return Main.vectors(VECTORS).stream().map(file -> DynamicTest.dynamicTest(Main.name(file), () -> {
            Map<?, ?> vector = (Map<?, ?>) Json.parse(new String(Files.readAllBytes(file), UTF_8));
            assertEquals(Json.write(vector.get("expect")), Main.compute(file));
        }));
    }
}

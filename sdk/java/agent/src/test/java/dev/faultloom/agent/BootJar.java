package dev.faultloom.agent;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.springframework.boot.loader.tools.Library;
import org.springframework.boot.loader.tools.LibraryScope;
import org.springframework.boot.loader.tools.Repackager;

/** Builds the executable jar of a Spring Boot application, with the tool that its plugins for Maven and Gradle use. */
final class BootJar {
    private BootJar() {}

    /**
     * @param folder where the jar is written
     * @param packages of the application
     * @param main its main class
     * @param others expression for the jars of the tests' class path that it does not have
     */
    static Path build(Path folder, List<String> packages, String main, String others) throws IOException {
        Path classes = Path.of("target", "test-classes").toAbsolutePath();
        Path plain = folder.resolve("plain.jar");
        try (JarOutputStream jar = new JarOutputStream(Files.newOutputStream(plain))) {
            for (String name : packages) {
                for (Path file : classFiles(classes.resolve(name))) {
                    jar.putNextEntry(new JarEntry(classes.relativize(file).toString().replace('\\', '/')));
                    jar.write(Files.readAllBytes(file));
                    jar.closeEntry();
                }
            }
        }
        Repackager repackager = new Repackager(plain.toFile());
        repackager.setMainClass(main);
        repackager.setBackupSource(false);
        Path built = folder.resolve("app.jar");
        List<Path> libraries = Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator)).map(Path::of)
                .filter(path -> path.toString().endsWith(".jar") && !path.getFileName().toString().matches(others))
                .collect(Collectors.toList());
        repackager.repackage(built.toFile(), callback -> {
            for (Path library : libraries) {
                callback.library(new Library(library.toFile(), LibraryScope.COMPILE));
            }
        });
        return built;
    }

    private static List<Path> classFiles(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.filter(file -> file.toString().endsWith(".class")).collect(Collectors.toList());
        }
    }
}

package dev.faultloom.agent;

import java.io.IOException;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.jar.asm.ClassReader;
import net.bytebuddy.jar.asm.ClassWriter;
import net.bytebuddy.jar.asm.commons.ClassRemapper;
import net.bytebuddy.jar.asm.commons.Remapper;

/** Class files in which references to the classes of one package are replaced by those of another. */
final class RenamedClassFiles implements ClassFileLocator {
    private final ClassFileLocator files;
    private final String from;
    private final String to;

    /** @param from a package with slashes, such as {@code dev/faultloom/hooks/jakarta/} */
    RenamedClassFiles(ClassFileLocator files, String from, String to) {
        this.files = files;
        this.from = from;
        this.to = to;
    }

    @Override
    public Resolution locate(String name) throws IOException {
        Resolution resolution = files.locate(name);
        if (!resolution.isResolved()) {
            return resolution;
        }
        ClassWriter writer = new ClassWriter(0);
        new ClassReader(resolution.resolve()).accept(new ClassRemapper(writer, new Remapper() {
            @Override
            public String map(String internalName) {
                return internalName.startsWith(from) ? to + internalName.substring(from.length()) : internalName;
            }
        }), 0);
        return new Resolution.Explicit(writer.toByteArray());
    }

    @Override
    public void close() throws IOException {
        files.close();
    }
}

package dev.faultloom.agent;

import java.io.IOException;
import java.io.InputStream;
import java.net.JarURLConnection;
import java.net.URL;
import java.net.URLConnection;
import java.util.jar.Attributes;
import net.bytebuddy.jar.asm.ClassReader;
import net.bytebuddy.jar.asm.ClassVisitor;
import net.bytebuddy.jar.asm.FieldVisitor;
import net.bytebuddy.jar.asm.MethodVisitor;
import net.bytebuddy.jar.asm.Opcodes;

/** Versions of libraries, read from their files without loading their classes. */
final class LibraryVersions {
    private LibraryVersions() {}

    /** The value of a string constant in a class file, or null. */
    static String constant(ClassLoader loader, String type, String field) {
        String[] found = new String[1];
        read(loader, type, new ClassVisitor(Opcodes.ASM9) {
            @Override
            public FieldVisitor visitField(int access, String name, String descriptor, String signature, Object value) {
                if (name.equals(field) && value instanceof String) {
                    found[0] = (String) value;
                }
                return null;
            }
        });
        return found[0];
    }

    /** The text after {@code prefix} in a string that the methods of a class file use, or null. */
    static String text(ClassLoader loader, String type, String prefix) {
        String[] found = new String[1];
        read(loader, type, new ClassVisitor(Opcodes.ASM9) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
                return new MethodVisitor(Opcodes.ASM9) {
                    @Override
                    public void visitLdcInsn(Object value) {
                        if (value instanceof String && ((String) value).startsWith(prefix)) {
                            found[0] = ((String) value).substring(prefix.length());
                        }
                    }
                };
            }
        });
        return found[0];
    }

    private static void read(ClassLoader loader, String type, ClassVisitor visitor) {
        String path = type.replace('.', '/') + ".class";
        try (InputStream in = loader == null ? ClassLoader.getSystemResourceAsStream(path) : loader.getResourceAsStream(path)) {
            if (in != null) {
                new ClassReader(in.readAllBytes()).accept(visitor, ClassReader.SKIP_FRAMES | ClassReader.SKIP_DEBUG);
            }
        } catch (IOException | IllegalArgumentException e) {
            // an unreadable class file: unknown version
        }
    }

    /** The version in the manifest of a class's jar, or null. */
    static String ofJar(ClassLoader loader, String type) {
        URL found = loader.getResource(type.replace('.', '/') + ".class");
        try {
            URLConnection connection = found == null ? null : found.openConnection();
            if (!(connection instanceof JarURLConnection)) {
                return null;
            }
            Attributes attributes = ((JarURLConnection) connection).getMainAttributes();
            String version = attributes == null ? null : attributes.getValue("Implementation-Version");
            return version != null || attributes == null ? version : attributes.getValue("Bundle-Version");
        } catch (IOException e) {
            return null;
        }
    }
}

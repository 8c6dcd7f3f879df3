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

/** Versions of libraries, read from their files: nothing of the application is loaded for it. */
final class Versions {
    private Versions() {}

    /** The value of a constant in a class file that {@code loader} finds, or null. */
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

    /** What follows {@code prefix} in a text that a class file's methods use, or null. */
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
            // a class file that cannot be read tells no version
        }
    }

    /** The version that the manifest of a class's jar tells, or null. */
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

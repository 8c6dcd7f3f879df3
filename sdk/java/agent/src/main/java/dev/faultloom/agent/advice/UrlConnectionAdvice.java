package dev.faultloom.agent.advice;

import dev.faultloom.hooks.urlconnection.UrlConnectionHooks;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/**
 * The JDK's {@code HttpURLConnection}. Exceptions are not suppressed, because faults throw them; the hooks suppress
 * their own errors.
 */
public final class UrlConnectionAdvice {
    private UrlConnectionAdvice() {}

    public static final class Connect {
        private Connect() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static Object enter(@Advice.This HttpURLConnection connection) throws IOException {
            return UrlConnectionHooks.connect(connection);
        }
    }

    public static final class Output {
        private Output() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static Object enter(@Advice.This HttpURLConnection connection) throws IOException {
            return UrlConnectionHooks.output(connection);
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter Object replacement, @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) OutputStream out) {
            if (replacement != null) {
                out = (OutputStream) replacement;
            }
        }
    }

    public static final class Input {
        private Input() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static Object enter(@Advice.This HttpURLConnection connection) throws IOException {
            return UrlConnectionHooks.input(connection);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(@Advice.This HttpURLConnection connection, @Advice.Enter Object replacement, @Advice.Thrown Throwable error,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) InputStream in) throws IOException {
            if (replacement != null) {
                in = (InputStream) replacement;
            } else {
                in = (InputStream) UrlConnectionHooks.replied(connection, in, error);
            }
        }
    }

    public static final class Error {
        private Error() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static Object enter(@Advice.This HttpURLConnection connection) {
            return UrlConnectionHooks.error(connection);
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter Object replacement, @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) InputStream in) {
            if (replacement != null) {
                in = (InputStream) replacement;
            }
        }
    }
}

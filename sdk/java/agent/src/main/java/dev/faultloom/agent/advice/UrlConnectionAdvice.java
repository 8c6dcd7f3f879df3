package dev.faultloom.agent.advice;

import dev.faultloom.urlconnection.Connections;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/** The JDK's {@code HttpURLConnection}. What a fault throws goes through: errors are not suppressed here but in what is called. */
public final class UrlConnectionAdvice {
    private UrlConnectionAdvice() {}

    public static final class Connect {
        private Connect() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static Object enter(@Advice.This HttpURLConnection connection) throws IOException {
            return Connections.connect(connection);
        }
    }

    public static final class Output {
        private Output() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static Object enter(@Advice.This HttpURLConnection connection) throws IOException {
            return Connections.output(connection);
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter Object instead, @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) OutputStream out) {
            if (instead != null) {
                out = (OutputStream) instead;
            }
        }
    }

    public static final class Input {
        private Input() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static Object enter(@Advice.This HttpURLConnection connection) throws IOException {
            return Connections.input(connection);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(@Advice.This HttpURLConnection connection, @Advice.Enter Object instead, @Advice.Thrown Throwable error,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) InputStream in) throws IOException {
            if (instead != null) {
                in = (InputStream) instead;
            } else {
                in = (InputStream) Connections.replied(connection, in, error);
            }
        }
    }

    public static final class Error {
        private Error() {}

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static Object enter(@Advice.This HttpURLConnection connection) {
            return Connections.error(connection);
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter Object instead, @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) InputStream in) {
            if (instead != null) {
                in = (InputStream) instead;
            }
        }
    }
}

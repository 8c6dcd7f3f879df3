package dev.faultloom.urlconnection;

import dev.faultloom.wire.Envelope;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.HttpURLConnection;

/** The headers of a reply inside the JDK's implementation. They can be changed only if its packages were opened to us. */
final class Replies {
    private static final Field RESPONSES;
    private static final Field CODE;
    private static final Field MESSAGE;
    private static final Method REMOVE;
    private static final Method SET;
    /** Whether they can be changed; else no tails are asked for. */
    static final boolean READABLE;

    static {
        Field responses = null;
        Field code = null;
        Field message = null;
        Method remove = null;
        Method set = null;
        try {
            responses = Class.forName("sun.net.www.protocol.http.HttpURLConnection").getDeclaredField("responses");
            responses.setAccessible(true);
            code = HttpURLConnection.class.getDeclaredField("responseCode");
            code.setAccessible(true);
            message = HttpURLConnection.class.getDeclaredField("responseMessage");
            message.setAccessible(true);
            remove = responses.getType().getMethod("remove", String.class);
            set = responses.getType().getMethod("set", String.class, String.class);
        } catch (ReflectiveOperationException | RuntimeException e) {
            responses = null;
        }
        RESPONSES = responses;
        CODE = code;
        MESSAGE = message;
        REMOVE = remove;
        SET = set;
        READABLE = responses != null && set != null;
    }

    private Replies() {}

    /** Removes what is ours. */
    static void clean(HttpURLConnection connection) {
        call(REMOVE, connection, Envelope.HISTORY_HEADER);
        call(REMOVE, connection, Envelope.REPLY_HEADER);
    }

    /** The body's length; -1: unknown. */
    static void setLength(HttpURLConnection connection, long length) {
        if (length < 0) {
            call(REMOVE, connection, "content-length");
        } else {
            call(SET, connection, "content-length", Long.toString(length));
        }
    }

    /** A reply of this status, and nothing else. */
    static void answer(HttpURLConnection connection, int status) {
        try {
            CODE.setInt(connection, status);
            MESSAGE.set(connection, "");
        } catch (ReflectiveOperationException | RuntimeException e) {
            // the application sees an empty reply
        }
    }

    private static void call(Method method, HttpURLConnection connection, Object... arguments) {
        if (!READABLE) {
            return;
        }
        try {
            Object responses = RESPONSES.get(connection); // of HTTPS it is inside another
            if (responses != null) {
                method.invoke(responses, arguments);
            }
        } catch (ReflectiveOperationException | RuntimeException e) {
            // they stay as they are
        }
    }
}

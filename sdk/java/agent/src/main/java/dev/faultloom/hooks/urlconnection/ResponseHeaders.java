package dev.faultloom.hooks.urlconnection;

import dev.faultloom.wire.Envelope;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.HttpURLConnection;

/** Changes the response headers inside the JDK's implementation, whose packages the agent opens. */
final class ResponseHeaders {
    private static final Field RESPONSES;
    private static final Field CODE;
    private static final Field MESSAGE;
    private static final Method REMOVE;
    private static final Method SET;
    private static final Method VALUE;
    /** Whether the headers can be changed; if not, requests do not accept a tail. */
    static final boolean ACCESSIBLE;

    static {
        Field responses = null;
        Field code = null;
        Field message = null;
        Method remove = null;
        Method set = null;
        Method value = null;
        try {
            responses = Class.forName("sun.net.www.protocol.http.HttpURLConnection").getDeclaredField("responses");
            responses.setAccessible(true);
            code = HttpURLConnection.class.getDeclaredField("responseCode");
            code.setAccessible(true);
            message = HttpURLConnection.class.getDeclaredField("responseMessage");
            message.setAccessible(true);
            remove = responses.getType().getMethod("remove", String.class);
            set = responses.getType().getMethod("set", String.class, String.class);
            value = responses.getType().getMethod("getValue", int.class);
        } catch (ReflectiveOperationException | RuntimeException e) {
            responses = null;
        }
        RESPONSES = responses;
        CODE = code;
        MESSAGE = message;
        REMOVE = remove;
        SET = set;
        VALUE = value;
        ACCESSIBLE = responses != null && value != null;
    }

    private ResponseHeaders() {}

    /** Whether the headers of a reply have arrived. Does not call the connection. */
    static boolean hasAny(HttpURLConnection connection) {
        try {
            Object responses = ACCESSIBLE ? RESPONSES.get(connection) : null;
            return responses != null && VALUE.invoke(responses, 0) != null;
        } catch (ReflectiveOperationException | RuntimeException e) {
            return false;
        }
    }

    /** Removes our headers. */
    static void removeOurs(HttpURLConnection connection) {
        call(REMOVE, connection, Envelope.HISTORY_HEADER);
        call(REMOVE, connection, Envelope.REPLY_HEADER);
    }

    /** Sets the content length; -1: removes it. */
    static void setLength(HttpURLConnection connection, long length) {
        if (length < 0) {
            call(REMOVE, connection, "content-length");
        } else {
            call(SET, connection, "content-length", Long.toString(length));
        }
    }

    /** Sets the status of a reply that was not received. */
    static void setStatus(HttpURLConnection connection, int status) {
        try {
            CODE.setInt(connection, status);
            MESSAGE.set(connection, "");
        } catch (ReflectiveOperationException | RuntimeException e) {
            // the application gets an empty reply
        }
    }

    private static void call(Method method, HttpURLConnection connection, Object... arguments) {
        if (!ACCESSIBLE) {
            return;
        }
        try {
            Object responses = RESPONSES.get(connection); // null for HTTPS, which delegates to another connection
            if (responses != null) {
                method.invoke(responses, arguments);
            }
        } catch (ReflectiveOperationException | RuntimeException e) {
            // the headers stay unchanged
        }
    }
}

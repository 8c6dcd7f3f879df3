package dev.faultloom.hooks.jakarta;

import dev.faultloom.entry.ThisProcess;
import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Envelope;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;

/**
 * Servlet containers: the first filter or servlet of a request gets our request and response. The build generates the
 * same hooks for {@code javax.servlet} from these sources.
 */
public final class ServletHooks {
    private static final String SCOPE_ATTRIBUTE = "dev.faultloom.scope";
    /** Whether this thread is inside a filter or servlet: only the outermost opens a scope. */
    private static final ThreadLocal<boolean[]> INSIDE = ThreadLocal.withInitial(() -> new boolean[1]);

    private ServletHooks() {}

    /** Before a filter or servlet. The result is for {@link #exit}; null: the thread is inside another one. */
    public static Object enter(Object request, Object response) {
        boolean[] inside = INSIDE.get();
        if (inside[0]) {
            return null;
        }
        inside[0] = true;
        try {
            ServerScope scope = openScope(request, response);
            return scope == null ? CurrentScope.bindUntraced() : scope;
        } catch (RuntimeException | LinkageError e) {
            return CurrentScope.bindUntraced(); // an error of ours must not prevent the request
        }
    }

    private static ServerScope openScope(Object raw, Object response) {
        if (!(raw instanceof HttpServletRequest) || !(response instanceof HttpServletResponse)) {
            return null;
        }
        HttpServletRequest request = (HttpServletRequest) raw;
        String envelope = request.getHeader(Envelope.HTTP_HEADER);
        if (envelope != null || request.isAsyncStarted()) {
            Object present = request.getAttribute(SCOPE_ATTRIBUTE);
            if (present instanceof ServerScope) {
                return ((ServerScope) present).enter(); // the container dispatched the request again
            }
        }
        Scope scope = ThisProcess.get().openScope(name -> header(request, name));
        if (scope == null) {
            return null;
        }
        ServerScope traced = new ServerScope(scope, request, (HttpServletResponse) response);
        request.setAttribute(SCOPE_ATTRIBUTE, traced);
        return traced.enter();
    }

    /** The request for the application. */
    public static Object request(Object entered, Object request) {
        return entered instanceof ServerScope ? ((ServerScope) entered).request() : request;
    }

    /** The response for the application. */
    public static Object response(Object entered, Object response) {
        return entered instanceof ServerScope ? ((ServerScope) entered).response() : response;
    }

    /** After the filter or servlet. */
    public static void exit(Object entered, Throwable error) throws IOException {
        if (entered == null) {
            return;
        }
        INSIDE.get()[0] = false;
        if (entered instanceof ServerScope) {
            ((ServerScope) entered).exit(error);
        } else {
            ((CurrentScope.Binding) entered).close(); // of a request that is not traced
        }
    }

    /**
     * A request header, several lines joined; of the envelope the last line, because a proxy may forward an earlier
     * one.
     */
    static String header(HttpServletRequest request, String name) {
        Enumeration<String> lines = request.getHeaders(name);
        if (lines == null || !lines.hasMoreElements()) {
            return null;
        }
        String first = lines.nextElement();
        if (!lines.hasMoreElements()) {
            return first;
        }
        List<String> more = Collections.list(lines);
        return name.equals(Envelope.HTTP_HEADER) ? more.get(more.size() - 1) : first + ", " + String.join(", ", more);
    }
}

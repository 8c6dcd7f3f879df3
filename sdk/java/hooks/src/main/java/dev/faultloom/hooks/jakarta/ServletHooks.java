package dev.faultloom.hooks.jakarta;

import dev.faultloom.scope.Process;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Envelope;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;

/**
 * Servlet containers: the first filter or servlet that a request reaches is handed our request and response. What
 * another name of the servlet interfaces needs is made of these sources.
 */
public final class ServletHooks {
    private static final String SERVED = "dev.faultloom.served";
    /** What {@link #enter} returns for a request without a scope. */
    private static final Object PLAIN = new Object();
    /** Whether this thread is inside a filter or servlet already: only the outermost matters. */
    private static final ThreadLocal<boolean[]> INSIDE = ThreadLocal.withInitial(() -> new boolean[1]);

    private ServletHooks() {}

    /** Before a filter or servlet: what {@link #exit} is to get; null: we are inside another. */
    public static Object enter(Object request, Object response) {
        boolean[] inside = INSIDE.get();
        if (inside[0]) {
            return null;
        }
        inside[0] = true;
        try {
            Served served = served(request, response);
            return served == null ? PLAIN : served;
        } catch (RuntimeException | LinkageError e) {
            return PLAIN; // whatever is wrong, the request is to be served
        }
    }

    private static Served served(Object raw, Object response) {
        if (!(raw instanceof HttpServletRequest) || !(response instanceof HttpServletResponse)) {
            return null;
        }
        HttpServletRequest request = (HttpServletRequest) raw;
        String envelope = request.getHeader(Envelope.HTTP_HEADER);
        if (envelope != null || request.isAsyncStarted()) {
            Object known = request.getAttribute(SERVED);
            if (known instanceof Served) {
                return ((Served) known).again(); // dispatched once more by the container
            }
        }
        Scope scope = Process.current().openHttp(name -> header(request, name));
        if (scope == null) {
            return null;
        }
        Served served = new Served(scope, request, (HttpServletResponse) response);
        request.setAttribute(SERVED, served);
        return served.again();
    }

    /** The request that the application is to see. */
    public static Object request(Object entered, Object request) {
        return entered instanceof Served ? ((Served) entered).request() : request;
    }

    /** The response that the application is to see. */
    public static Object response(Object entered, Object response) {
        return entered instanceof Served ? ((Served) entered).response() : response;
    }

    /** After the filter or servlet. */
    public static void exit(Object entered, Throwable error) throws IOException {
        if (entered == null) {
            return;
        }
        INSIDE.get()[0] = false;
        if (entered != PLAIN) {
            ((Served) entered).left(error);
        }
    }

    /** A request's header, several lines joined; of envelopes the last: a proxy may pass its own on before it. */
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

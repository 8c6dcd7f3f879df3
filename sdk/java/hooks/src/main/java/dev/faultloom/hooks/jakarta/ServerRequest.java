package dev.faultloom.hooks.jakarta;

import dev.faultloom.hooks.http.RouteTemplate;
import jakarta.servlet.AsyncContext;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;

/**
 * The request for the application. An asynchronous request continues with our response. Spring sets the pattern of the
 * handler as an attribute; the first one counts, because a request that is forwarded has another one later.
 */
final class ServerRequest extends HttpServletRequestWrapper {
    private static final String SPRING_PATTERN = "org.springframework.web.servlet.HandlerMapping.bestMatchingPattern";

    private final ServerScope scope;
    private volatile String route;

    ServerRequest(HttpServletRequest request, ServerScope scope) {
        super(request);
        this.scope = scope;
    }

    /** The template of the route that serves the request, or null. */
    String route() {
        return route;
    }

    @Override
    public void setAttribute(String name, Object value) {
        if (route == null && name.equals(SPRING_PATTERN) && value != null && !RouteTemplate.isCatchAll(value.toString())) {
            String template = prefix() + RouteTemplate.ofSpring(value.toString());
            route = template.isEmpty() ? "/" : template;
        }
        super.setAttribute(name, value);
    }

    /** The part of the path before that of the servlet: patterns do not contain it. */
    private String prefix() {
        // without path information the servlet serves every path, or only one
        return getPathInfo() == null ? getContextPath() : getContextPath() + getServletPath();
    }

    @Override
    public AsyncContext startAsync() {
        return new ServerAsyncContext(super.startAsync(this, scope.response()), scope);
    }

    @Override
    public AsyncContext startAsync(ServletRequest request, ServletResponse response) {
        return new ServerAsyncContext(super.startAsync(request, response), scope);
    }

    @Override
    public AsyncContext getAsyncContext() {
        AsyncContext context = super.getAsyncContext();
        return context instanceof ServerAsyncContext ? context : new ServerAsyncContext(context, scope);
    }
}

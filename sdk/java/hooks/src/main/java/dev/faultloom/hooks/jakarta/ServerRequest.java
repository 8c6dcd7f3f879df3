package dev.faultloom.hooks.jakarta;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;

/** The request for the application. An asynchronous request continues with our response. */
final class ServerRequest extends HttpServletRequestWrapper {
    private final ServerScope scope;

    ServerRequest(HttpServletRequest request, ServerScope scope) {
        super(request);
        this.scope = scope;
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

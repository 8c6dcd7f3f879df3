package dev.faultloom.hooks.jakarta;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;

/** The request as the application sees it. Going asynchronous, it takes our response along. */
final class ServedRequest extends HttpServletRequestWrapper {
    private final Served served;

    ServedRequest(HttpServletRequest request, Served served) {
        super(request);
        this.served = served;
    }

    @Override
    public AsyncContext startAsync() {
        return new ServedAsync(super.startAsync(this, served.response()), served);
    }

    @Override
    public AsyncContext startAsync(ServletRequest request, ServletResponse response) {
        return new ServedAsync(super.startAsync(request, response), served);
    }

    @Override
    public AsyncContext getAsyncContext() {
        AsyncContext context = super.getAsyncContext();
        return context instanceof ServedAsync ? context : new ServedAsync(context, served);
    }
}

package dev.faultloom.hooks.jakarta;

import dev.faultloom.scope.CurrentScope;
import jakarta.servlet.AsyncContext;
import jakarta.servlet.AsyncListener;
import jakarta.servlet.ServletContext;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import java.io.IOException;

/** An asynchronous request, whose reply ends when the application completes it. */
final class ServerAsyncContext implements AsyncContext {
    private final AsyncContext context;
    private final ServerScope scope;

    ServerAsyncContext(AsyncContext context, ServerScope scope) {
        this.context = context;
        this.scope = scope;
    }

    @Override
    public void complete() {
        try {
            scope.response().finish();
        } catch (IOException e) {
            // the connection is closed
        }
        context.complete();
    }

    @Override
    public void start(Runnable task) {
        context.start(() -> {
            try (CurrentScope.Binding ignored = CurrentScope.bind(scope.scope())) {
                task.run();
            }
        });
    }

    @Override
    public ServletRequest getRequest() {
        return context.getRequest();
    }

    @Override
    public ServletResponse getResponse() {
        return context.getResponse();
    }

    @Override
    public boolean hasOriginalRequestAndResponse() {
        return context.getRequest() == scope.request() && context.getResponse() == scope.response();
    }

    @Override
    public void dispatch() {
        context.dispatch();
    }

    @Override
    public void dispatch(String path) {
        context.dispatch(path);
    }

    @Override
    public void dispatch(ServletContext to, String path) {
        context.dispatch(to, path);
    }

    @Override
    public void addListener(AsyncListener listener) {
        context.addListener(listener);
    }

    @Override
    public void addListener(AsyncListener listener, ServletRequest request, ServletResponse response) {
        context.addListener(listener, request, response);
    }

    @Override
    public <T extends AsyncListener> T createListener(Class<T> type) throws ServletException {
        return context.createListener(type);
    }

    @Override
    public void setTimeout(long ms) {
        context.setTimeout(ms);
    }

    @Override
    public long getTimeout() {
        return context.getTimeout();
    }
}

package dev.faultloom.hooks.jakarta;

import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.Scope;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

/** A traced request. Its scope finishes when the application returns, or completes the asynchronous request. */
final class ServerScope {
    private final Scope scope;
    private final ServerRequest request;
    private final ServerResponse response;
    private CurrentScope.Binding binding;

    ServerScope(Scope scope, HttpServletRequest request, HttpServletResponse response) {
        this.scope = scope;
        this.request = new ServerRequest(request, this);
        this.response = new ServerResponse(response, scope, request, this.request::route);
    }

    Scope scope() {
        return scope;
    }

    ServerRequest request() {
        return request;
    }

    ServerResponse response() {
        return response;
    }

    /** Binds the scope before the application is called, for the first time or after a dispatch. */
    ServerScope enter() {
        binding = CurrentScope.bind(scope);
        return this;
    }

    /** After the application returned or threw. */
    void exit(Throwable error) throws IOException {
        binding.close();
        if (error != null) {
            response.finishAfterError();
        } else if (!request.isAsyncStarted()) {
            response.finish();
        }
    }
}

package dev.faultloom.hooks.jakarta;

import dev.faultloom.scope.Current;
import dev.faultloom.scope.Scope;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

/** One request inside a scope, which ends when the application has left it and will not come back asynchronously. */
final class Served {
    private final Scope scope;
    private final ServedRequest request;
    private final ServedResponse response;
    private Current.Binding binding;

    Served(Scope scope, HttpServletRequest request, HttpServletResponse response) {
        this.scope = scope;
        this.request = new ServedRequest(request, this);
        this.response = new ServedResponse(response, scope, request);
    }

    Scope scope() {
        return scope;
    }

    ServedRequest request() {
        return request;
    }

    ServedResponse response() {
        return response;
    }

    /** The application is entered, for the first time or again. */
    Served again() {
        binding = Current.bind(scope);
        return this;
    }

    /** The application has returned, or thrown. */
    void left(Throwable error) throws IOException {
        binding.close();
        if (error != null) {
            response.fail();
        } else if (!request.isAsyncStarted()) {
            response.finish();
        }
    }
}

package dev.faultloom.hooks.jakarta;

import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.FilterConfig;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import java.io.IOException;

/** The server hook without the agent: the first filter, with support for asynchronous requests. */
public final class ServletHook implements Filter {
    @Override
    public void init(FilterConfig configuration) {}

    @Override
    public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain) throws IOException, ServletException {
        Object entered = ServletHooks.enter(request, response);
        Throwable thrown = null;
        try {
            chain.doFilter((ServletRequest) ServletHooks.request(entered, request), (ServletResponse) ServletHooks.response(entered, response));
        } catch (IOException | ServletException | RuntimeException | Error e) {
            thrown = e;
            throw e;
        } finally {
            ServletHooks.exit(entered, thrown);
        }
    }

    @Override
    public void destroy() {}
}

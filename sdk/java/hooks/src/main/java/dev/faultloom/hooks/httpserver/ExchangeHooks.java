package dev.faultloom.hooks.httpserver;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpsExchange;
import dev.faultloom.entry.ThisProcess;
import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Envelope;
import java.util.List;

/** {@code com.sun.net.httpserver}: called by the agent's advice in filter chains. */
public final class ExchangeHooks {
    private ExchangeHooks() {}

    /** The exchange that the chain continues with: ours if the request is traced, else the same. */
    public static Object enter(Object exchange) {
        if (traced(exchange) != null || CurrentScope.isBound()) {
            return exchange;
        }
        HttpExchange raw = (HttpExchange) exchange;
        Scope scope = ThisProcess.get().openScope(name -> header(raw, name));
        if (scope == null) {
            return exchange;
        }
        ServerExchange traced = new ServerExchange(raw, scope);
        return raw instanceof HttpsExchange ? new SecureExchange((HttpsExchange) raw, traced) : traced;
    }

    /** Our exchange; null: the request is not traced. */
    private static ServerExchange traced(Object exchange) {
        return exchange instanceof SecureExchange ? ((SecureExchange) exchange).traced()
                : exchange instanceof ServerExchange ? (ServerExchange) exchange : null;
    }

    /**
     * Binds the scope of an exchange to the thread, or that it is not traced. The result, or null, is for {@link
     * #exit}.
     */
    public static Object bind(Object exchange) {
        if (CurrentScope.isBound()) {
            return null;
        }
        ServerExchange traced = traced(exchange);
        return traced != null ? CurrentScope.bind(traced.scope()) : CurrentScope.bindUntraced();
    }

    public static void exit(Object bound, Object exchange, Throwable error) {
        if (bound != null) {
            ((CurrentScope.Binding) bound).close();
            ServerExchange traced = traced(exchange);
            if (error != null && traced != null) {
                traced.abandon();
            }
        }
    }

    /**
     * A request header, several lines joined; of the envelope the last line, because a proxy may forward an earlier
     * one.
     */
    static String header(HttpExchange exchange, String name) {
        List<String> values = exchange.getRequestHeaders().get(name);
        if (values == null || values.isEmpty()) {
            return null;
        }
        return name.equals(Envelope.HTTP_HEADER) ? values.get(values.size() - 1) : String.join(", ", values);
    }
}

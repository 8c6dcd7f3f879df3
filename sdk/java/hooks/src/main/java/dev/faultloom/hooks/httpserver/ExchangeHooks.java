package dev.faultloom.hooks.httpserver;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpsExchange;
import dev.faultloom.scope.Current;
import dev.faultloom.scope.Process;
import dev.faultloom.scope.Scope;
import dev.faultloom.wire.Envelope;
import java.util.List;

/** {@code com.sun.net.httpserver}: what the first of a request's filters is handed. */
public final class ExchangeHooks {
    private ExchangeHooks() {}

    /** The exchange with which a chain is to go on: ours if the request opens a scope, else the same. */
    public static Object enter(Object exchange) {
        if (exchange instanceof ServedExchange || exchange instanceof HttpsExchange || Current.get() != null) {
            return exchange;
        }
        HttpExchange raw = (HttpExchange) exchange;
        Scope scope = Process.current().openHttp(name -> header(raw, name));
        return scope == null ? exchange : new ServedExchange(raw, scope);
    }

    /** Enters the scope of an exchange, for {@link #exit}. */
    public static Object bind(Object exchange) {
        return exchange instanceof ServedExchange && Current.get() == null ? Current.bind(((ServedExchange) exchange).scope()) : null;
    }

    public static void exit(Object bound, Object exchange, Throwable error) {
        if (bound != null) {
            ((Current.Binding) bound).close();
            if (error != null) {
                ((ServedExchange) exchange).abandon();
            }
        }
    }

    /** A request's header, several lines joined; of envelopes the last: a proxy may pass its own on before it. */
    static String header(HttpExchange exchange, String name) {
        List<String> values = exchange.getRequestHeaders().get(name);
        if (values == null || values.isEmpty()) {
            return null;
        }
        return name.equals(Envelope.HTTP_HEADER) ? values.get(values.size() - 1) : String.join(", ", values);
    }
}

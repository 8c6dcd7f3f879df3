package dev.faultloom.hooks.grpc;

import dev.faultloom.entry.ThisProcess;
import io.grpc.ClientInterceptor;
import io.grpc.ServerBuilder;
import java.lang.reflect.Field;
import java.util.List;

/** Called by the agent's advice in grpc-java's builders. */
public final class GrpcHooks {
    private GrpcHooks() {}

    /** Before a server is built. The last interceptor in the list runs first. */
    public static void server(Object builder, List<?> interceptors) {
        interceptors.removeIf(interceptor -> interceptor instanceof ServerHook);
        ((ServerBuilder<?>) builder).intercept(new ServerHook(ThisProcess.get(), receiveLimit(builder, "clientTransportServersBuilder"), true));
    }

    /** After the interceptors of a new channel are listed. The first interceptor in the list runs last. */
    @SuppressWarnings("unchecked")
    public static void channel(Object builder, List<?> list) {
        List<ClientInterceptor> interceptors = (List<ClientInterceptor>) list;
        interceptors.removeIf(interceptor -> interceptor instanceof ClientHook);
        interceptors.add(0, new ClientHook(receiveLimit(builder, "clientTransportFactoryBuilder")));
    }

    /**
     * The receive limit, or 0: unknown. The general builder refers to an inner class of the transport builder that
     * holds it.
     */
    private static int receiveLimit(Object builder, String inner) {
        try {
            Object transport = field(field(builder, inner), "this$0");
            try {
                return (int) field(transport, "maxInboundMessageSize");
            } catch (NoSuchFieldException e) {
                return (int) field(transport, "maxMessageSize"); // Netty's server
            }
        } catch (ReflectiveOperationException | RuntimeException e) {
            return 0;
        }
    }

    private static Object field(Object of, String name) throws ReflectiveOperationException {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }
}

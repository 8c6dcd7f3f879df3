package dev.faultloom.agent;

/** gRPC with shaded Netty. */
final class GrpcTest extends GrpcCalls {
    GrpcTest() {
        super("shaded");
    }
}

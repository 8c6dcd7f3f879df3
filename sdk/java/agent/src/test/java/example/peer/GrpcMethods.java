package example.peer;

import com.google.protobuf.StringValue;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.protobuf.ProtoUtils;

/** The methods of the service, equivalent to generated code. */
final class GrpcMethods {
    static final String SERVICE = "t.T";

    private GrpcMethods() {}

    static MethodDescriptor<StringValue, StringValue> method(String name, MethodType type) {
        return MethodDescriptor.<StringValue, StringValue>newBuilder()
                .setType(type)
                .setFullMethodName(MethodDescriptor.generateFullMethodName(SERVICE, name))
                .setRequestMarshaller(ProtoUtils.marshaller(StringValue.getDefaultInstance()))
                .setResponseMarshaller(ProtoUtils.marshaller(StringValue.getDefaultInstance()))
                .build();
    }

    static MethodDescriptor<StringValue, StringValue> unary(String name) {
        return method(name, MethodType.UNARY);
    }
}

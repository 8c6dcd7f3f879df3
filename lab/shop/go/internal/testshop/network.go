// Package testshop runs the whole shop inside a test: the real Go services,
// stand-ins for the others, and a network without sockets that records every
// call and fails selected ones.
package testshop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Call is one call between two services.
type Call struct {
	Service string // such as "currency"
	Method  string // such as "Convert"
	Number  int    // among the calls to this method, from 1
}

// String formats a call, such as "currency/Convert#3".
func (c Call) String() string { return fmt.Sprintf("%s/%s#%d", c.Service, c.Method, c.Number) }

// Network connects the services of one process, for one request at a time. If
// Fails is set and returns true for a call, the call ends with UNAVAILABLE
// before it reaches the service.
type Network struct {
	Calls []Call
	Fails func(Call) bool

	services map[string]registered
}

type registered struct {
	methods map[string]grpc.MethodDesc
	server  any
}

// Reset clears the recorded calls and sets which calls fail.
func (n *Network) Reset(fails func(Call) bool) { n.Calls, n.Fails = nil, fails }

// RegisterService adds a service, as a gRPC server would.
func (n *Network) RegisterService(description *grpc.ServiceDesc, server any) {
	if n.services == nil {
		n.services = map[string]registered{}
	}
	methods := map[string]grpc.MethodDesc{}
	for _, method := range description.Methods {
		methods[method.MethodName] = method
	}
	name := strings.ToLower(strings.TrimPrefix(description.ServiceName, "shop."))
	n.services[name] = registered{methods: methods, server: server}
}

// Dial is the dial argument of the Connect functions.
func (n *Network) Dial(string) (grpc.ClientConnInterface, error) { return n, nil }

// Invoke makes a call with copies of its messages.
func (n *Network) Invoke(ctx context.Context, path string, request, reply any, _ ...grpc.CallOption) error {
	service, method, _ := strings.Cut(strings.TrimPrefix(path, "/shop."), "/")
	call := Call{Service: strings.ToLower(service), Method: method, Number: 1}
	for _, earlier := range n.Calls {
		if earlier.Service == call.Service && earlier.Method == method {
			call.Number++
		}
	}
	n.Calls = append(n.Calls, call)
	if n.Fails != nil && n.Fails(call) {
		return status.Errorf(codes.Unavailable, "%s fails on purpose", call)
	}
	target, found := n.services[call.Service].methods[method]
	if !found {
		return status.Errorf(codes.Unimplemented, "no service for %s", path)
	}
	decode := func(into any) error {
		proto.Merge(into.(proto.Message), request.(proto.Message))
		return nil
	}
	result, err := target.Handler(n.services[call.Service].server, ctx, decode, nil)
	if err != nil {
		return status.Convert(err).Err()
	}
	proto.Merge(reply.(proto.Message), result.(proto.Message))
	return nil
}

// NewStream is not needed: the shop has no streams.
func (n *Network) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams")
}

// Names lists the methods of calls in their order.
func Names(calls []Call) []string {
	var names []string
	for _, call := range calls {
		names = append(names, call.Service+"/"+call.Method)
	}
	return names
}

// Services lists the called services in alphabetical order.
func Services(calls []Call) []string {
	var names []string
	for _, call := range calls {
		names = append(names, call.Service)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

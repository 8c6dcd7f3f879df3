// The race detector makes every frame larger.
//
//go:build !race

package grpchook

import (
	"context"
	"testing"
	"time"
	"unsafe"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// maxStack is how much stack a hook may use, in bytes, while the program or grpc-go runs below it, including the test's
// own functions. With twice as much, many handlers outgrew their stack because of the hooks, and Go had to copy it.
const maxStack = 448

func TestHooksUseLittleStack(t *testing.T) {
	registerCodec() // codecIsActive checks the codec only once
	p := keys(t)
	key := p.Receiver.Settings().SigningKey(false)
	signed := wire.Signed{History: true, Expires: uint32(time.Now().Unix()) + 60, KeyID: key.ID, Environment: "demo"}
	part, err := wire.AppendSignedPart(nil, &signed)
	if err != nil {
		t.Fatal(err)
	}
	signedPrefix := string(key.Sign(nil, part))
	envelope, err := wire.AssembleEnvelope(signedPrefix, 1, 0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	incoming := metadata.NewIncomingContext(context.Background(), metadata.MD{wire.GRPCKey: {envelope}})
	outgoing := scope.With(context.Background(), p.NewScope(&wire.Envelope{Signed: signed, SignedPrefix: signedPrefix}, time.Now()))

	var at uintptr
	var current *scope.Scope
	handler := func(ctx context.Context, _ any) (any, error) {
		at, current = stackPosition(), scope.Current(ctx)
		return nil, nil
	}
	invoke := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		at, current = stackPosition(), nil
		if md, ok := metadata.FromOutgoingContext(ctx); ok && len(md[wire.GRPCKey]) == 1 {
			current = scope.Current(ctx)
		}
		return nil
	}
	server, client := unaryServer(func() *scope.Process { return p }), unaryClient("127.0.0.1:1")
	foreign := grpc.CallContentSubtype("json") // so the hook does not use the channel, which is nil
	for name, call := range map[string]func(){
		"server": func() { server(incoming, nil, &grpc.UnaryServerInfo{FullMethod: "/a/b"}, handler) },
		"client": func() { client(outgoing, "/a/b", nil, nil, nil, invoke, foreign) },
	} {
		call() // now the stack has its final size
		here := stackPosition()
		call()
		if current == nil {
			t.Errorf("%s: the call was not traced", name)
		}
		if took := int(here) - int(at); took <= 0 || took > maxStack {
			t.Errorf("%s: %d bytes of stack, at most %d are expected", name, took, maxStack)
		}
	}
}

// stackPosition returns the address of the stack's end.
//
//go:noinline
func stackPosition() uintptr {
	var here byte
	return uintptr(unsafe.Pointer(&here))
}

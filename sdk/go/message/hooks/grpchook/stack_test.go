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

// mostStack is what a hook may take of the stack, in bytes, while the program or grpc-go works below it; the test's own
// functions are part of it. When it was twice as much, many handlers outgrew their stack for that alone, and Go copied it.
const mostStack = 448

func TestHooksTakeLittleOfTheStack(t *testing.T) {
	registerCodec() // whose codec it is, is looked at once
	p := keys(t)
	key := p.Receiver.Settings().SigningKey(false)
	signed := wire.Signed{History: true, Expires: uint32(time.Now().Unix()) + 60, KeyID: key.ID, Environment: "demo"}
	part, err := wire.AppendSignedPart(nil, &signed)
	if err != nil {
		t.Fatal(err)
	}
	passedOn := string(key.Sign(nil, part))
	envelope, err := wire.AssembleEnvelope(passedOn, 1, 0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	incoming := metadata.NewIncomingContext(context.Background(), metadata.MD{wire.GRPCKey: {envelope}})
	begun := scope.With(context.Background(), p.NewScope(&wire.Envelope{Signed: signed, SignedBlock: passedOn}, time.Now()))

	var at uintptr
	var seen *scope.Scope
	handler := func(ctx context.Context, _ any) (any, error) {
		at, seen = place(), scope.Current(ctx)
		return nil, nil
	}
	invoke := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		at, seen = place(), nil
		if md, ok := metadata.FromOutgoingContext(ctx); ok && len(md[wire.GRPCKey]) == 1 {
			seen = scope.Current(ctx)
		}
		return nil
	}
	server, client := unaryServer(func() *scope.Process { return p }), unaryClient("127.0.0.1:1")
	foreign := grpc.CallContentSubtype("json") // no channel is asked then how large a reply may be
	for name, call := range map[string]func(){
		"server": func() { server(incoming, nil, &grpc.UnaryServerInfo{FullMethod: "/a/b"}, handler) },
		"client": func() { client(begun, "/a/b", nil, nil, nil, invoke, foreign) },
	} {
		call() // the stack is as large as it will be
		here := place()
		call()
		if seen == nil {
			t.Errorf("%s: the call was not traced", name)
		}
		if took := int(here) - int(at); took <= 0 || took > mostStack {
			t.Errorf("%s: %d bytes of stack, at most %d are expected", name, took, mostStack)
		}
	}
}

// place is where the stack ends.
//
//go:noinline
func place() uintptr {
	var here byte
	return uintptr(unsafe.Pointer(&here))
}

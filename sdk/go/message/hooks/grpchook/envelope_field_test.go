package grpchook

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	health_v1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

func TestFieldIsDetectedInSplitMessages(t *testing.T) {
	whole := wire.AppendField([]byte("message"), []byte("envelope"))
	if endsWithField(nil) || endsWithField(mem.BufferSlice{mem.SliceBuffer(nil)}) {
		t.Error("an empty message")
	}
	for at := range len(whole) + 1 {
		if !endsWithField(mem.BufferSlice{mem.SliceBuffer(whole[:at]), mem.SliceBuffer(whole[at:])}) {
			t.Errorf("in two pieces, cut at %d", at)
		}
	}
	for name, other := range map[string][]byte{
		"no field":                   []byte("message"),
		"shorter than the field end": []byte("m\x01"),
		"ends like one":              []byte("message" + wire.Magic),
		"a byte behind it":           append(whole[:len(whole):len(whole)], 0),
	} {
		if endsWithField(mem.BufferSlice{mem.SliceBuffer(other)}) {
			t.Error(name)
		}
	}
	if !endsWithField(mem.BufferSlice{mem.SliceBuffer(whole)}) {
		t.Error("in one piece")
	}
}

// While requests with envelopes in fields are served, other requests are inspected, too. Afterwards none may be.
func TestRequestsAreInspectedOnlyWhileFieldsArePending(t *testing.T) {
	p := keys(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(ServerOptions(p)...)
	health_v1.RegisterHealthServer(server, health.NewServer())
	go server.Serve(listener)
	defer server.Stop()
	options := append(DialOptions(listener.Addr().String()), grpc.WithTransportCredentials(insecure.NewCredentials()))
	cc, err := grpc.NewClient(listener.Addr().String(), options...)
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	key := p.Receiver.Settings().SigningKey(false)
	signed := wire.Signed{History: true, Expires: uint32(time.Now().Unix()) + 60, KeyID: key.ID, Environment: "demo"}
	part, err := wire.AppendSignedPart(nil, &signed)
	if err != nil {
		t.Fatal(err)
	}
	s := p.NewScope(&wire.Envelope{Signed: signed, SignedPrefix: string(key.Sign(nil, part))}, time.Now())
	ctx := scope.With(context.Background(), s)
	before := pendingFields.Load()
	const calls = 20
	for range calls {
		if _, err := health_v1.NewHealthClient(cc).Check(ctx, &health_v1.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	history, err := wire.DecodeHistory(s.Finish(s.Now(), 0, "all"))
	if err != nil {
		t.Fatal(err)
	}
	traced := 0
	for _, event := range history.Segment.Events {
		if event.Kind == wire.RecvResponse && event.Child != nil {
			traced++
		}
	}
	if traced != calls {
		t.Errorf("%d of %d calls were traced", traced, calls)
	}
	if left := pendingFields.Load() - before; left != 0 {
		t.Errorf("%d fields are still pending", left)
	}
}

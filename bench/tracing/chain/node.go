package main

import (
	"context"
	"net"

	"google.golang.org/grpc"

	"bench.example/tracing/gen"
)

// service forwards a parcel to the next service, if there is one, and returns the receipt. It can call the next service
// several times, one after the other, and returns the last receipt.
type service struct {
	gen.UnimplementedChainServer
	next  gen.ChainClient
	calls int
}

func (s *service) Forward(ctx context.Context, p *gen.Parcel) (*gen.Receipt, error) {
	if s.next == nil {
		return &gen.Receipt{Id: p.Id, Hops: p.Hops + 1, Items: p.Items}, nil
	}
	var r *gen.Receipt
	for range s.calls {
		var err error
		if r, err = s.next.Forward(ctx, &gen.Parcel{Id: p.Id, Hops: p.Hops + 1, Items: p.Items}); err != nil {
			return nil, err
		}
	}
	return &gen.Receipt{Id: r.Id, Hops: r.Hops, Items: r.Items}, nil
}

func node(arguments []string) {
	t := newTracing()
	s := &service{calls: 1}
	if len(arguments) > 0 {
		s.next = dial(arguments[0], t.dial)
	}
	if len(arguments) > 1 {
		s.calls = natural(arguments[1])
	}
	server := grpc.NewServer(t.server...)
	gen.RegisterChainServer(server, s)
	serve(server, t.commands)
}

// serve runs a server on a free port of the loopback interface and executes commands.
func serve(server *grpc.Server, commands map[string]func([]string) any) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail("%v", err)
	}
	go func() {
		if err := server.Serve(l); err != nil {
			fail("%v", err)
		}
	}()
	control(map[string]string{"address": l.Addr().String()}, commands)
}

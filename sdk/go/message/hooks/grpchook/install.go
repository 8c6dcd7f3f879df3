package grpchook

import (
	"net/url"
	"strings"
	"sync"
	_ "unsafe" // for linkname

	"google.golang.org/grpc"

	"faultloom.dev/go/message/entry/status"
	"faultloom.dev/go/message/scope"
)

//go:linkname addGlobalServerOptions google.golang.org/grpc/internal.AddGlobalServerOptions
var addGlobalServerOptions any // func(opt ...grpc.ServerOption)

//go:linkname addGlobalPerTargetDialOptions google.golang.org/grpc/internal.AddGlobalPerTargetDialOptions
var addGlobalPerTargetDialOptions any // func(opt any)

// These are asked once per channel, after the user's own options: so ours are the innermost interceptors.
type (
	unaryPerTarget  struct{}
	streamPerTarget struct{}
)

func (unaryPerTarget) DialOptionForTarget(target url.URL) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(unaryClient(authority(target)))
}

func (streamPerTarget) DialOptionForTarget(target url.URL) grpc.DialOption {
	return grpc.WithChainStreamInterceptor(streamClient(authority(target)))
}

// Install hooks every server and channel made from now on. Call it from an init function, before any of them exists and
// where registering a codec is allowed. It does nothing the second time.
var Install = sync.OnceFunc(func() {
	server, ok := addGlobalServerOptions.(func(...grpc.ServerOption))
	client, ok2 := addGlobalPerTargetDialOptions.(func(any))
	if !ok || !ok2 {
		status.Report("google.golang.org/grpc", grpc.Version, "it has moved its hooks") // inert rather than broken
		return
	}
	registerCodec()
	server(grpc.ChainUnaryInterceptor(unaryServer(scope.DefaultProcess)), grpc.ChainStreamInterceptor(streamServer(scope.DefaultProcess)))
	client(unaryPerTarget{})
	client(streamPerTarget{})
	status.Report("google.golang.org/grpc", grpc.Version, "")
})

// ServerOptions are the server hooks for one process description; for programs that do not use Install. Call it in an
// init function or before any other use of grpc, since it registers the codec.
func ServerOptions(p *scope.Process) []grpc.ServerOption {
	registerCodec()
	process := func() *scope.Process { return p }
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unaryServer(process)), grpc.ChainStreamInterceptor(streamServer(process))}
}

// DialOptions are the client hooks for one channel; add them behind its own. authority is the address as
// FAULTLOOM_PEERS knows it.
func DialOptions(authority string) []grpc.DialOption {
	registerCodec()
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unaryClient(authority)), grpc.WithChainStreamInterceptor(streamClient(authority))}
}

// authority is what a channel was told to reach, without the resolver's scheme: "host:port" in almost all cases.
func authority(target url.URL) string {
	if target.Opaque != "" {
		return target.Opaque
	}
	return strings.TrimPrefix(target.Path, "/")
}

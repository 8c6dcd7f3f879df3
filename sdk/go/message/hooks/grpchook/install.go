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

// grpc-go calls these once per channel, after the program's own options, so the hooks are the innermost interceptors.
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

// Install hooks every server and channel that is created from now on. Call it from an init function, before any of them
// exists and while codecs may be registered. Further calls do nothing.
var Install = sync.OnceFunc(func() {
	server, ok := addGlobalServerOptions.(func(...grpc.ServerOption))
	client, ok2 := addGlobalPerTargetDialOptions.(func(any))
	if !ok || !ok2 {
		status.Refused("google.golang.org/grpc", grpc.Version, "this version has no global options for the hooks")
		return
	}
	registerCodec()
	server(grpc.ChainUnaryInterceptor(unaryServer(scope.ThisProcess)), grpc.ChainStreamInterceptor(streamServer(scope.ThisProcess)))
	client(unaryPerTarget{})
	client(streamPerTarget{})
	status.Hooked("google.golang.org/grpc", grpc.Version)
})

// ServerOptions returns the server hooks of one process, for programs that do not use Install. Call it in an init
// function or before any other use of grpc, since it registers the codec.
func ServerOptions(p *scope.Process) []grpc.ServerOption {
	registerCodec()
	process := func() *scope.Process { return p }
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unaryServer(process)), grpc.ChainStreamInterceptor(streamServer(process))}
}

// DialOptions returns the client hooks of one channel. Add them after its own options. authority is the channel's
// address as FAULTLOOM_PEERS spells it.
func DialOptions(authority string) []grpc.DialOption {
	registerCodec()
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unaryClient(authority)), grpc.WithChainStreamInterceptor(streamClient(authority))}
}

// authority returns a channel's target without the resolver's scheme: "host:port" in almost all cases.
func authority(target url.URL) string {
	if target.Opaque != "" {
		return target.Opaque
	}
	return strings.TrimPrefix(target.Path, "/")
}

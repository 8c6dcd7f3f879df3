package scope

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"faultloom.dev/go/message/entry"
	"faultloom.dev/go/message/trust"
	"faultloom.dev/go/message/wire"
)

// Process describes a service and how it uses the SDK.
type Process struct {
	Service  string            // 1 to 64 bytes, no control characters
	Peers    map[string]string // address "host:port" to service name
	Receiver *trust.Receiver
	Sampler  entry.Sampler
	Log      io.Writer // gets one line per reason for which an envelope is refused; nil: none

	reported sync.Map // of wire.Error
}

// ThisProcess describes this process by its environment variables: FAULTLOOM_SERVICE, FAULTLOOM_PEERS, the trust
// settings and those of entry.NewSampler. It reads them at the first call.
var ThisProcess = sync.OnceValue(func() *Process {
	p := &Process{Service: os.Getenv("FAULTLOOM_SERVICE"), Peers: ParsePeers(os.Getenv("FAULTLOOM_PEERS")),
		Receiver: trust.NewReceiverFromEnvironment(), Sampler: entry.NewSampler(os.Getenv, os.Stderr), Log: os.Stderr}
	if p.Service == "" {
		p.Service = strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	}
	p.Service = serviceName(p.Service)
	return p
})

// serviceName returns a name that a segment may have. Control characters are replaced: readers do not take a history
// with one in the name for a tail.
func serviceName(name string) string {
	name = strings.Map(func(c rune) rune {
		if c < 0x20 || c == 0x7f {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(name, "?"))
	return wire.TruncateString(name, wire.MaxServiceBytes)
}

// ParsePeers reads "host:port=service,…". Entries without both parts are ignored.
func ParsePeers(text string) map[string]string {
	peers := map[string]string{}
	for _, pair := range strings.Split(text, ",") {
		address, name, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if address != "" && name != "" {
			peers[address] = name
		}
	}
	return peers
}

// PeerName returns the name that FAULTLOOM_PEERS gives to an authority, else the authority.
func (p *Process) PeerName(authority string) string {
	if name, ok := p.Peers[authority]; ok {
		return name
	}
	return authority
}

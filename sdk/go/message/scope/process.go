package scope

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"faultloom.dev/go/message/trust"
	"faultloom.dev/go/message/wire"
)

// Process is what a service knows about itself and its surroundings.
type Process struct {
	Service  string            // 1 to 64 bytes
	Peers    map[string]string // address "host:port" to service name
	Receiver *trust.Receiver
	Entry    EntryConfig
	Log      io.Writer // where refused envelopes are reported, one line for each reason; nil: nowhere

	reported sync.Map // of wire.Error
}

// Default describes this process, by its environment variables: FAULTLOOM_SERVICE, FAULTLOOM_PEERS and the trust
// settings. They are read at the first use.
var DefaultProcess = sync.OnceValue(func() *Process {
	p := &Process{Service: os.Getenv("FAULTLOOM_SERVICE"), Peers: ParsePeers(os.Getenv("FAULTLOOM_PEERS")), Receiver: trust.NewReceiverFromEnvironment()}
	p.Entry, p.Log = ParseEntry(os.Getenv, os.Stderr), os.Stderr
	if p.Service == "" {
		p.Service = strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	}
	p.Service = wire.TruncateString(strings.ToValidUTF8(p.Service, "?"), wire.MaxServiceBytes)
	return p
})

// ParsePeers reads "host:port=service,…". Entries without both parts are ignored.
func ParsePeers(text string) map[string]string {
	peers := map[string]string{}
	for _, entry := range strings.Split(text, ",") {
		address, name, _ := strings.Cut(strings.TrimSpace(entry), "=")
		if address != "" && name != "" {
			peers[address] = name
		}
	}
	return peers
}

// Peer names an authority: as FAULTLOOM_PEERS does, else as it is.
func (p *Process) PeerName(authority string) string {
	if name, ok := p.Peers[authority]; ok {
		return name
	}
	return authority
}

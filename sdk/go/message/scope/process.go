package scope

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"faultloom.dev/go/message/trust"
	"faultloom.dev/go/message/wire"
)

// Process is what a service knows about itself and its surroundings.
type Process struct {
	Service  string            // 1 to 64 bytes
	Peers    map[string]string // address "host:port" to service name
	Receiver *trust.Receiver
}

// Default describes this process, by its environment variables: FAULTLOOM_SERVICE, FAULTLOOM_PEERS and the trust
// settings. They are read at the first use.
var Default = sync.OnceValue(func() *Process {
	p := &Process{Service: os.Getenv("FAULTLOOM_SERVICE"), Peers: ParsePeers(os.Getenv("FAULTLOOM_PEERS")), Receiver: trust.FromEnvironment()}
	if p.Service == "" {
		p.Service = strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	}
	p.Service = wire.Cut(strings.ToValidUTF8(p.Service, "?"), wire.MaxServiceBytes)
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
func (p *Process) Peer(authority string) string {
	if name, ok := p.Peers[authority]; ok {
		return name
	}
	return authority
}

// Open begins the scope of a request that carried this envelope (raw bytes), or returns nil: deaf or refused, then the
// request is to be served as if there were no envelope. attempt is the number in grpc-previous-rpc-attempts, or 0.
func (p *Process) Open(raw string, attempt uint64) *Scope {
	s := &Scope{start: time.Now()}
	if ok, err := p.Receiver.Accept(&s.env, raw, s.start.Unix(), attempt); !ok || err != nil {
		return nil
	}
	return s.begin(p)
}

// OpenHeader is Open for the text of an HTTP header.
func (p *Process) OpenHeader(header string) *Scope {
	s := &Scope{start: time.Now()}
	if ok, err := p.Receiver.AcceptHeader(&s.env, header, s.start.Unix()); !ok || err != nil {
		return nil
	}
	return s.begin(p)
}

// New begins the scope of an accepted envelope. start also serves as the wall clock.
func (p *Process) New(env *wire.Envelope, start time.Time) *Scope {
	return (&Scope{env: *env, start: start}).begin(p)
}

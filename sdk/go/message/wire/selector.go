package wire

import (
	"net/netip"
	"strings"
)

// Matches reports whether the selector selects a call from caller to peer. name is the gRPC method or the raw "METHOD
// /path" without the query.
func (s *Selector) Matches(caller, peer, name string) bool {
	return (s.Caller == "" || s.Caller == caller) && (s.Callee == "" || calleeMatches(s.Callee, peer)) &&
		(s.Call == "" || callMatches(s.Call, name))
}

func hostOf(peer string) string {
	if rest, ok := strings.CutPrefix(peer, "["); ok {
		host, _, _ := strings.Cut(rest, "]")
		return host
	}
	if i := strings.LastIndexByte(peer, ':'); i >= 0 && !strings.Contains(peer[:i], ":") {
		return peer[:i]
	}
	return peer
}

func calleeMatches(callee, peer string) bool {
	host := hostOf(peer)
	if callee == peer || callee == host {
		return true
	}
	label, _, _ := strings.Cut(host, ".")
	if callee != label {
		return false
	}
	_, err := netip.ParseAddr(host)
	return err != nil
}

func callMatches(call, name string) bool {
	if call == name {
		return true
	}
	if !strings.ContainsAny(call, "/ ") {
		i := strings.LastIndexByte(name, '/')
		return i >= 0 && name[i+1:] == call
	}
	for {
		w, wrest, wmore := strings.Cut(call, "/")
		g, grest, gmore := strings.Cut(name, "/")
		if wmore != gmore || (w != g && w != "*" && (len(w) < 2 || w[0] != '{' || w[len(w)-1] != '}')) {
			return false
		}
		if !wmore {
			return true
		}
		call, name = wrest, grest
	}
}

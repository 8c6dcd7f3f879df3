package entry

import (
	"crypto/tls"
	"crypto/x509"
	"net"
)

// security begins TLS on a connection to a host. The handshake happens when the first bytes are sent.
type tlsWrapper func(conn net.Conn, host string) net.Conn

// linked is nil in programs whose linker has left TLS out.
var linkedTLS tlsWrapper

// LinkTLS is called while the program starts, by package exporttls; New refuses https:// before. The linker leaves TLS out
// where nothing calls it.
func EnableTLS() { linkedTLS = newTLSWrapper(nil) }

// secure trusts the given authorities; nil: those of the system.
func newTLSWrapper(roots *x509.CertPool) tlsWrapper {
	return func(conn net.Conn, host string) net.Conn {
		return tls.Client(conn, &tls.Config{ServerName: host, RootCAs: roots, NextProtos: []string{"http/1.1"}})
	}
}

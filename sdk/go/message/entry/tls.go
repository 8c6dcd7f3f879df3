package entry

import (
	"crypto/tls"
	"crypto/x509"
	"net"
)

// tlsWrapper starts TLS on a connection to a host. The handshake happens when the first bytes are sent.
type tlsWrapper func(conn net.Conn, host string) net.Conn

// linkedTLS is nil in programs from which the linker has removed TLS.
var linkedTLS tlsWrapper

// EnableTLS makes NewExporter accept https:// endpoints. Package exporttls calls it in an init function. In programs
// that do not import that package, the linker removes TLS.
func EnableTLS() { linkedTLS = newTLSWrapper(nil) }

// newTLSWrapper trusts the given certificate authorities; nil: those of the system.
func newTLSWrapper(roots *x509.CertPool) tlsWrapper {
	return func(conn net.Conn, host string) net.Conn {
		return tls.Client(conn, &tls.Config{ServerName: host, RootCAs: roots, NextProtos: []string{"http/1.1"}})
	}
}

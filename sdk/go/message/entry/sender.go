package entry

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	sendTimeout = 5 * time.Second // for one body, including connecting and the reply
	maxReply    = 64 << 10        // bytes of one reply that are read, including its head
)

// sender posts to one OTLP/HTTP endpoint over one persistent HTTP/1.1 connection. It does not use http.Client, which
// would link net/http's Transport and HTTP/2 into programs that only use gRPC, and code that never runs slows down the
// rest (bench/README.md). It does not follow redirects and does not support SOCKS proxies.
//
// Not safe for concurrent use.
type sender struct {
	endpoint *url.URL
	head     http.Header
	timeout  time.Duration
	tls      tlsWrapper                            // nil: http:// only
	proxy    func(*http.Request) (*url.URL, error) // nil URL: none; called once per connection
	idle     *connection                           // nil: none
}

// connection is a connection to the endpoint, or to its proxy.
type connection struct {
	net.Conn
	proxy   *url.URL // the proxy that forwards plain requests; nil: none
	limited io.LimitedReader
	reader  *bufio.Reader
}

// errNoReply means that the connection ended without one byte of a reply. On a reused connection, the peer had closed
// it before the request arrived, so the request may be repeated.
var errNoReply = errors.New("the connection ended without a reply")

func newSender(to *url.URL) *sender {
	head := http.Header{"Content-Type": {"application/json"}}
	if to.User != nil {
		head.Set("Authorization", basicAuth(to.User))
	}
	return &sender{endpoint: to, head: head, timeout: sendTimeout, tls: linkedTLS, proxy: http.ProxyFromEnvironment}
}

// post sends one body. An error means that the endpoint did not accept it in time.
func (s *sender) post(body []byte) error {
	deadline := time.Now().Add(s.timeout)
	if old := s.idle; old != nil {
		if err := s.exchange(old, body, deadline); !errors.Is(err, errNoReply) {
			return err
		}
	}
	fresh, err := s.dial(deadline)
	if err != nil {
		return err
	}
	return s.exchange(fresh, body, deadline)
}

// exchange sends one body over c and reads the reply. Afterwards c is idle or closed.
func (s *sender) exchange(c *connection, body []byte, deadline time.Time) error {
	s.idle = nil
	reusable := false
	defer func() {
		if reusable {
			s.idle = c
		} else {
			c.Close()
		}
	}()
	if err := c.SetDeadline(deadline); err != nil {
		return errors.Join(errNoReply, err)
	}
	r := &http.Request{Method: http.MethodPost, URL: s.endpoint, Host: s.endpoint.Host, Header: s.head,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
	if err := c.write(r); err != nil {
		return errors.Join(errNoReply, err)
	}
	reply, err := c.reply(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, reply.Body)
	reusable = err == nil && !reply.Close && reply.StatusCode != http.StatusSwitchingProtocols && c.reader.Buffered() == 0
	if reply.StatusCode < 200 || reply.StatusCode > 299 {
		return fmt.Errorf("status %d", reply.StatusCode)
	}
	return nil
}

func (c *connection) write(r *http.Request) error {
	if c.proxy == nil {
		return r.Write(c)
	}
	if c.proxy.User != nil {
		r.Header = r.Header.Clone()
		r.Header.Set("Proxy-Authorization", basicAuth(c.proxy.User))
	}
	return r.WriteProxy(c)
}

// reply reads a reply up to its body, at most maxReply bytes with the body.
func (c *connection) reply(r *http.Request) (*http.Response, error) {
	c.limited.N = maxReply
	if _, err := c.reader.Peek(1); err != nil {
		return nil, errors.Join(errNoReply, err)
	}
	for {
		reply, err := http.ReadResponse(c.reader, r)
		if err != nil || reply.StatusCode >= 200 || reply.StatusCode == http.StatusSwitchingProtocols {
			return reply, err
		}
	}
}

// dial connects to the endpoint, through the proxy that the environment configures. TLS handshakes happen when the
// first bytes are sent, with the same deadline.
func (s *sender) dial(deadline time.Time) (*connection, error) {
	proxy, err := s.proxy(&http.Request{URL: s.endpoint})
	if err != nil {
		return nil, err
	}
	first := s.endpoint
	if proxy != nil {
		if first = proxy; !isHTTP(proxy) || (isTLS(proxy) && s.tls == nil) {
			return nil, fmt.Errorf("proxies with scheme %s are not supported", proxy.Scheme)
		}
	}
	conn, err := (&net.Dialer{Deadline: deadline}).Dial("tcp", address(first))
	if err != nil {
		return nil, err
	}
	c := s.newConnection(conn, first)
	if proxy == nil {
		return c, nil
	}
	if c.proxy = proxy; !isTLS(s.endpoint) {
		return c, nil
	}
	if err := c.tunnel(address(s.endpoint), deadline); err != nil {
		c.Close()
		return nil, err
	}
	return s.newConnection(c.Conn, s.endpoint), nil
}

// newConnection returns a connection over conn to the host of a URL, with TLS if the URL has https.
func (s *sender) newConnection(conn net.Conn, to *url.URL) *connection {
	if isTLS(to) {
		conn = s.tls(conn, to.Hostname())
	}
	c := &connection{Conn: conn, limited: io.LimitedReader{R: conn}}
	c.reader = bufio.NewReader(&c.limited)
	return c
}

// tunnel makes the proxy connect to an address and forward bytes.
func (c *connection) tunnel(to string, deadline time.Time) error {
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: to}, Host: to, Header: http.Header{}}
	if err := c.write(r); err != nil {
		return err
	}
	reply, err := c.reply(r)
	if err != nil {
		return err
	}
	if reply.StatusCode != http.StatusOK || c.reader.Buffered() > 0 {
		return fmt.Errorf("the proxy replied with status %d", reply.StatusCode)
	}
	return nil
}

func isHTTP(u *url.URL) bool { return u.Scheme == "http" || isTLS(u) }

func isTLS(u *url.URL) bool { return u.Scheme == "https" }

// address returns the host and port of a URL.
func address(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case isTLS(u):
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// basicAuth returns the value of an Authorization header.
func basicAuth(u *url.Userinfo) string {
	password, _ := u.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password))
}

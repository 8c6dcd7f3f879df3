// Tests of the cart service with a memcached of Debian's package.
package cart

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shop.example/gen"
)

// memcached can be stopped and started on one address.
type memcached struct {
	address string
	command *exec.Cmd
}

func startMemcached(t *testing.T) *memcached {
	t.Helper()
	if _, err := exec.LookPath("memcached"); err != nil {
		t.Skip("memcached is not installed")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &memcached{address: listener.Addr().String()}
	listener.Close()
	m.start(t)
	t.Cleanup(m.stop)
	return m
}

func (m *memcached) start(t *testing.T) {
	t.Helper()
	_, port, _ := net.SplitHostPort(m.address)
	m.command = exec.Command("memcached", "-l", "127.0.0.1", "-p", port, "-U", "0", "-m", "8", "-u", "nobody")
	if err := m.command.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", m.address)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func (m *memcached) stop() {
	m.command.Process.Kill()
	m.command.Wait()
}

var (
	ctx = context.Background()
	ann = &gen.UserRequest{User: "ann"}
)

func addOne(server *Server, user, product string) error {
	_, err := server.AddItem(ctx, &gen.AddItemRequest{User: user,
		Item: &gen.CartItem{ProductId: product, Quantity: 1}})
	return err
}

func contentsOf(t *testing.T, server *Server) string {
	t.Helper()
	contents, err := server.GetCart(ctx, ann)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, item := range contents.Items {
		lines = append(lines, item.ProductId+strings.Repeat("+", int(item.Quantity)))
	}
	return strings.Join(lines, " ")
}

func TestCartOutlivesTheService(t *testing.T) {
	m := startMemcached(t)
	server := New(m.address)
	if got := contentsOf(t, server); got != "" {
		t.Errorf("new user has %q", got)
	}
	for _, product := range []string{"mug-01", "kite-09", "mug-01"} {
		if err := addOne(server, "ann", product); err != nil {
			t.Fatal(err)
		}
	}
	server = New(m.address)
	if got := contentsOf(t, server); got != "mug-01++ kite-09+" {
		t.Errorf("got %q", got)
	}
	if _, err := server.EmptyCart(ctx, ann); err != nil {
		t.Fatal(err)
	}
	if _, err := server.EmptyCart(ctx, ann); err != nil {
		t.Errorf("emptying an empty cart: %v", err)
	}
	if got := contentsOf(t, server); got != "" {
		t.Errorf("emptied cart has %q", got)
	}
}

func TestChangesAtTheSameTimeAreAllKept(t *testing.T) {
	server := New(startMemcached(t).address)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 5 {
				for status.Code(addOne(server, "ann", "mug-01")) == codes.Aborted {
				}
			}
		})
	}
	wait.Wait()
	if got := contentsOf(t, server); got != "mug-01"+strings.Repeat("+", 20) {
		t.Errorf("got %q", got)
	}
}

func TestWithoutMemcachedCallsAreUnavailableUntilItIsBack(t *testing.T) {
	m := startMemcached(t)
	server := New(m.address)
	var wait sync.WaitGroup
	for range 8 { // leaves several idle connections
		wait.Go(func() { server.GetCart(ctx, ann) })
	}
	wait.Wait()
	m.stop()
	for name, call := range map[string]func() error{
		"GetCart":   func() error { _, err := server.GetCart(ctx, ann); return err },
		"AddItem":   func() error { return addOne(server, "ann", "mug-01") },
		"EmptyCart": func() error { _, err := server.EmptyCart(ctx, ann); return err },
	} {
		if err := call(); status.Code(err) != codes.Unavailable {
			t.Errorf("%s without memcached: %v", name, err)
		}
	}
	m.start(t)
	if err := addOne(server, "ann", "mug-01"); err != nil {
		t.Errorf("memcached is back: %v", err)
	}
}

func TestStaleConnectionsAreReplaced(t *testing.T) {
	m := startMemcached(t)
	server := New(m.address)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() { server.GetCart(ctx, ann) })
	}
	wait.Wait()
	m.stop()
	m.start(t)
	if err := addOne(server, "ann", "mug-01"); err != nil {
		t.Error(err)
	}
}

func TestInvalidRequests(t *testing.T) {
	server := New("127.0.0.1:1") // never called
	for _, user := range []string{"", "two words", "line\r\nbreak", strings.Repeat("x", 65)} {
		if err := addOne(server, user, "mug-01"); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: %v", user, err)
		}
		if _, err := server.GetCart(ctx, &gen.UserRequest{User: user}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: %v", user, err)
		}
	}
	for _, quantity := range []int32{-1, 0, 100} {
		_, err := server.AddItem(ctx, &gen.AddItemRequest{User: "ann",
			Item: &gen.CartItem{ProductId: "mug-01", Quantity: quantity}})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%d: %v", quantity, err)
		}
	}
}

func TestCartsHaveLimits(t *testing.T) {
	contents := &gen.CartContents{}
	if err := add(contents, &gen.CartItem{ProductId: "mug-01", Quantity: 99}); err != nil {
		t.Fatal(err)
	}
	if err := add(contents, &gen.CartItem{ProductId: "mug-01", Quantity: 1}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("100 pieces: %v", err)
	}
	for len(contents.Items) < maxLines {
		contents.Items = append(contents.Items, &gen.CartItem{ProductId: "x"})
	}
	if err := add(contents, &gen.CartItem{ProductId: "kite-09", Quantity: 1}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("too many lines: %v", err)
	}
}

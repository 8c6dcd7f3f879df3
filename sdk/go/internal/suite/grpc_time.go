package suite

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/message/wire"
)

// connectionSetUp makes first calls on channels whose connection takes time. The call's time includes it, whether it
// ends in time or at the call's deadline, and other calls of the scope keep their times.
func connectionSetUp(t *testing.T) {
	address := serve(t, methods{"Get": echo}, withHooks(Process(t, "back")))
	fast := dial(t, address)
	const setUp = 120 * time.Millisecond
	for _, c := range []struct {
		name    string
		timeout time.Duration
		code    codes.Code
		call    func(ctx context.Context, cc *grpc.ClientConn) error
	}{
		{"unary", 5 * time.Second, codes.OK, unaryGet},
		{"unary, deadline in the set-up", setUp / 2, codes.DeadlineExceeded, unaryGet},
		{"stream, deadline in the set-up", setUp / 2, codes.DeadlineExceeded, func(ctx context.Context, cc *grpc.ClientConn) error {
			stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/shop.Service/None")
			if err != nil {
				return err
			}
			return stream.RecvMsg(new(Message))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var once sync.Once
			connecting, other := make(chan struct{}), make(chan struct{})
			slow := dial(t, address, grpc.WithContextDialer(func(ctx context.Context, target string) (net.Conn, error) {
				once.Do(func() { close(connecting) })
				<-other
				select {
				case <-time.After(setUp):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				return new(net.Dialer).DialContext(ctx, "tcp", address)
			}))
			ctx, r := start(t, faultloom.Options{})
			go func() {
				<-connecting
				call(ctx, fast, "Get", nil)
				close(other)
			}()
			limited, cancel := context.WithTimeout(ctx, c.timeout)
			defer cancel()
			begin := time.Now()
			err := c.call(limited, slow)
			took := time.Since(begin)
			<-other
			if status.Code(err) != c.code {
				t.Fatal(err)
			}
			s := finish(t, r)
			var first, last uint64
			for _, e := range s.Events {
				switch {
				case e.Kind == wire.SendRequest && e.Call == 1:
					first = e.AtUS
				case (e.Kind == wire.RecvResponse || e.Kind == wire.CallFailed) && e.Call == 1:
					last = e.AtUS
				}
			}
			recorded := time.Duration(last-first) * time.Microsecond
			if difference := (took - recorded).Abs(); difference > took/4 {
				t.Errorf("%v is recorded as %v\n%s", took, recorded, FormatHistory(s))
			}
		})
	}
}

func unaryGet(ctx context.Context, cc *grpc.ClientConn) error {
	_, err := call(ctx, cc, "Get", nil)
	return err
}

// Command replies calls the scripted server of `xtask replies` with each client library, see
// xtask/src/replies/driver.rs.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	faultloom "faultloom.dev/go"
	_ "faultloom.dev/go/auto"
)

// call is one call and its limits. Zero: none.
type call struct {
	ctx context.Context
	// client is the same for all calls of a case.
	client  *http.Client
	method  string
	target  string
	timeout time.Duration
	cancel  time.Duration
}

// context returns the context of the call. It is canceled, or has a deadline, when the call is to end.
func (c call) context() (context.Context, context.CancelFunc) {
	if c.timeout > 0 {
		return context.WithTimeout(c.ctx, c.timeout)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	if c.cancel > 0 {
		time.AfterFunc(c.cancel, cancel)
	}
	return ctx, cancel
}

type observed struct {
	Unsupported bool   `json:"unsupported"`
	Status      int    `json:"status"`
	Bytes       string `json:"bytes"`
	Error       string `json:"error"`
	content     []byte
}

var errUnsupported = errors.New("the library has no such limit")

var libraries = []struct {
	name string
	call func(call, *observed) error
}{
	{"http", byHTTP},
	{"http-timeout", byClientTimeout},
	{"grpc", byGRPC},
	{"grpc-stream", byStream},
}

func byHTTP(c call, out *observed) error {
	ctx, cancel := c.context()
	defer cancel()
	return c.do(ctx, out)
}

// byClientTimeout uses the client's own timeout.
func byClientTimeout(c call, out *observed) error {
	if c.cancel > 0 {
		return errUnsupported
	}
	c.client.Timeout = c.timeout
	return c.do(c.ctx, out)
}

func (c call) do(ctx context.Context, out *observed) error {
	var body io.Reader
	if c.method == "POST" {
		body = strings.NewReader("ping")
	}
	request, err := http.NewRequestWithContext(ctx, c.method, "http://"+c.target, body)
	if err != nil {
		return err
	}
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	out.Status = response.StatusCode
	out.content, err = io.ReadAll(response.Body)
	return err
}

// withChannel makes the call on a channel of its own.
func withChannel(c call, f func(ctx context.Context, channel *grpc.ClientConn, method string) error) error {
	ctx, cancel := c.context()
	defer cancel()
	address, path, _ := strings.Cut(c.target, "/")
	channel, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer channel.Close()
	return f(ctx, channel, "/"+path)
}

// add appends a message with its unknown fields: a history that was not removed is one.
func (o *observed) add(message proto.Message) error {
	bytes, err := proto.Marshal(message)
	o.content = append(append(o.content, bytes...), '|')
	return err
}

func byGRPC(c call, out *observed) error {
	return withChannel(c, func(ctx context.Context, channel *grpc.ClientConn, method string) error {
		reply := &wrapperspb.BytesValue{}
		if err := channel.Invoke(ctx, method, &wrapperspb.BytesValue{}, reply); err != nil {
			return err
		}
		return out.add(reply)
	})
}

func byStream(c call, out *observed) error {
	return withChannel(c, func(ctx context.Context, channel *grpc.ClientConn, method string) error {
		stream, err := channel.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
		if err != nil {
			return err
		}
		if err := stream.SendMsg(&wrapperspb.BytesValue{}); err != nil {
			return err
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		for {
			reply := &wrapperspb.BytesValue{}
			if err := stream.RecvMsg(reply); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if err := out.add(reply); err != nil {
				return err
			}
		}
	})
}

// typeOf returns the types of an error and of those that it wraps, and what programs test for.
func typeOf(err error) string {
	if s, ok := status.FromError(err); ok {
		return "grpc " + s.Code().String()
	}
	// a client's own timeout and its context end at the same time, and either may be reported
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timeout"
	}
	text := ""
	for one := err; one != nil; one = errors.Unwrap(one) {
		text += fmt.Sprintf("%T ", one)
	}
	for _, known := range []error{context.Canceled, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET} {
		if errors.Is(err, known) {
			text += known.Error() + " "
		}
	}
	return strings.TrimSpace(text)
}

func serve(w http.ResponseWriter, r *http.Request) {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 5)
	milliseconds := func(text string) time.Duration {
		n, _ := strconv.Atoi(text)
		return time.Duration(n) * time.Millisecond
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := call{ctx: r.Context(), timeout: milliseconds(parts[2]), cancel: milliseconds(parts[3]), target: parts[4]}
	c.client = &http.Client{Transport: faultloom.Transport(transport)}
	for _, library := range libraries {
		if library.name != parts[0] {
			continue
		}
		var calls []observed
		for _, c.method = range strings.Split(parts[1], ",") {
			var out observed
			if err := library.call(c, &out); err == errUnsupported {
				out.Unsupported = true
			} else if err != nil {
				out.Error = typeOf(err)
			}
			out.Bytes = hex.EncodeToString(out.content)
			calls = append(calls, out)
		}
		json.NewEncoder(w).Encode(calls)
		return
	}
	http.NotFound(w, r)
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print("ready ", listener.Addr().(*net.TCPAddr).Port)
	for _, library := range libraries {
		fmt.Print(" ", library.name)
	}
	fmt.Println()
	go func() {
		io.Copy(io.Discard, os.Stdin) // until the parent ends
		os.Exit(0)
	}()
	log.Fatal(http.Serve(listener, faultloom.Handler(http.HandlerFunc(serve))))
}

package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// market is front ⇶ back: the handlers of front's streams call back's unary Get for each item. Both have the SDK.
type market struct {
	address, back string
	cc            *grpc.ClientConn
}

func newMarket(t testing.TB, opts ...grpc.ServerOption) *market {
	back := serve(t, methods{"Get": func(_ context.Context, in *Message) (*Message, error) {
		if string(in.Value) == "missing" {
			return nil, status.Error(codes.NotFound, "no such thing")
		}
		return &Message{Value: append([]byte("got "), in.Value...)}, nil
	}}, withHooks(Process(t, "back")))
	process := Process(t, "front")
	process.Peers[back] = "back"
	to := dial(t, back)
	get := func(s grpc.ServerStream, item []byte) (*Message, error) {
		out, err := call(s.Context(), to, "Get", item)
		return &Message{Value: out}, err
	}
	m := &market{back: back}
	m.address = serveAll(t, nil, streams{
		// List sends one message per item of its request.
		"List": func(s grpc.ServerStream) error {
			in := new(Message)
			if err := s.RecvMsg(in); err != nil {
				return err
			}
			for _, item := range strings.Fields(string(in.Value)) {
				out, err := get(s, []byte(item))
				if err == nil {
					err = s.SendMsg(out)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		// Sum sends one message when its requests have ended.
		"Sum": func(s grpc.ServerStream) error {
			var all []string
			for in := new(Message); ; in = new(Message) {
				if err := s.RecvMsg(in); errors.Is(err, io.EOF) {
					return s.SendMsg(&Message{Value: []byte(strings.Join(all, ","))})
				} else if err != nil {
					return err
				}
				out, err := get(s, in.Value)
				if err != nil {
					return err
				}
				all = append(all, string(out.Value))
			}
		},
		// Chat sends one message for each message.
		"Chat": func(s grpc.ServerStream) error {
			for in := new(Message); ; in = new(Message) {
				if err := s.RecvMsg(in); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
				out, err := get(s, in.Value)
				if err == nil {
					err = s.SendMsg(out)
				}
				if err != nil {
					return err
				}
			}
		},
	}, append(opts, withHooks(process))...)
	m.cc = dial(t, m.address)
	return m
}

var (
	listDesc = &grpc.StreamDesc{StreamName: "List", ServerStreams: true}
	sumDesc  = &grpc.StreamDesc{StreamName: "Sum", ClientStreams: true}
	chatDesc = &grpc.StreamDesc{StreamName: "Chat", ServerStreams: true, ClientStreams: true}
)

func open(ctx context.Context, cc *grpc.ClientConn, desc *grpc.StreamDesc, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return cc.NewStream(ctx, desc, "/shop.Service/"+desc.StreamName, opts...)
}

func send(s grpc.ClientStream, text string) error { return s.SendMsg(&Message{Value: []byte(text)}) }

func recv(s grpc.ClientStream) (string, error) {
	m := new(Message)
	err := s.RecvMsg(m)
	if n := len(m.ProtoReflect().GetUnknown()); n > 0 {
		return "", fmt.Errorf("%d unknown bytes reached the program", n)
	}
	return string(m.Value), err
}

// read runs one stream to its end, with the items one by one, or at once for List. It returns what was received and the
// error.
func read(ctx context.Context, cc *grpc.ClientConn, desc *grpc.StreamDesc, items string, opts ...grpc.CallOption) (string, error) {
	s, err := open(ctx, cc, desc, opts...)
	if err != nil {
		return "", err
	}
	requests := strings.Fields(items)
	if !desc.ClientStreams {
		requests = []string{items}
	}
	var got []string
	next := func() error {
		text, err := recv(s)
		if err == nil {
			got = append(got, text)
		}
		return err
	}
	for _, r := range requests {
		if err = send(s, r); err != nil && err != io.EOF {
			return "", err
		}
		if desc == chatDesc {
			if err = next(); err != nil {
				return strings.Join(got, ","), err
			}
		}
	}
	if err = s.CloseSend(); err != nil {
		return "", err
	}
	if !desc.ServerStreams {
		err = next()
		return strings.Join(got, ","), err
	}
	for err = next(); err == nil; err = next() {
	}
	if err == io.EOF {
		err = nil
	}
	return strings.Join(got, ","), err
}

// lines returns the expected history of a stream whose handler has called back for each item.
func (m *market) lines(name, end, answer string, statuses ...int) []string {
	out := []string{`loadgen ""`, "  1 send /shop.Service/" + name + " to " + m.address, "  1 " + end, `    front ""`}
	for i, s := range statuses {
		out = append(out, fmt.Sprintf("      %d send /shop.Service/Get to back", i+1), fmt.Sprintf("      %d reply %d", i+1, s),
			`        back ""`, fmt.Sprintf("          answer %d", s))
	}
	return append(out, "      "+answer, "  answer 0")
}

func streamKinds(t *testing.T) {
	m := newMarket(t)
	for _, desc := range []*grpc.StreamDesc{listDesc, sumDesc, chatDesc} {
		ctx, r := start(t, faultloom.Options{})
		if out, err := read(ctx, m.cc, desc, "a b c"); err != nil || out != "got a,got b,got c" {
			t.Errorf("%s: %q %v", desc.StreamName, out, err)
		}
		expect(t, finish(t, r), m.lines(desc.StreamName, "reply 0", "answer 0", 0, 0, 0)...)
		if out, err := read(context.Background(), m.cc, desc, "a b"); err != nil || out != "got a,got b" {
			t.Errorf("%s untraced: %q %v", desc.StreamName, out, err)
		}
	}
}

// The history comes message by message, so it contains what happened until the caller cancels the stream.
func streamCanceled(t *testing.T) {
	m := newMarket(t)
	ctx, r := start(t, faultloom.Options{})
	child, cancel := context.WithCancel(ctx)
	s, err := open(child, m.cc, chatDesc)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range []string{"a", "b"} {
		if err := send(s, item); err != nil {
			t.Fatal(err)
		}
		if out, err := recv(s); err != nil || out != "got "+item {
			t.Fatal(out, err)
		}
	}
	cancel()
	if _, err := recv(s); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	want := m.lines("Chat", "failed 1", "", 0, 0)
	want[3] += " truncated"
	expect(t, finish(t, r), append(want[:len(want)-2], "  answer 0")...)
}

func streamLeftOpen(t *testing.T) {
	m := newMarket(t)
	ctx, r := start(t, faultloom.Options{})
	s, err := open(ctx, m.cc, chatDesc)
	if err != nil {
		t.Fatal(err)
	}
	if err := send(s, "a"); err != nil {
		t.Fatal(err)
	}
	if out, err := recv(s); err != nil || out != "got a" {
		t.Fatal(out, err)
	}
	want := m.lines("Chat", "failed 1", "", 0)
	want[3] += " truncated"
	expect(t, finish(t, r), append(want[:len(want)-2], "  answer 0")...)
	// a stream whose deadline has passed ends with that, whichever side detects it first
	ctx, r = start(t, faultloom.Options{})
	late, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if s, err = open(late, m.cc, chatDesc); err != nil {
		t.Fatal(err)
	}
	if _, err := recv(s); status.Code(err) != codes.DeadlineExceeded {
		t.Fatal(err)
	}
	if e := finish(t, r).Events[1]; e.Status != 4 {
		t.Errorf("%+v", e)
	}
}

func streamFaults(t *testing.T) {
	m := newMarket(t)
	for _, desc := range []*grpc.StreamDesc{listDesc, sumDesc, chatDesc} {
		play := func(plan ...faultloom.Fault) (string, string) {
			ctx, r := start(t, faultloom.Options{Plan: plan})
			out, err := read(ctx, m.cc, desc, "aa bb")
			if err != nil {
				out += "!" + status.Code(err).String()
			}
			return out, FormatHistory(finish(t, r))
		}
		healthy := func(when string) {
			t.Helper()
			if out, history := play(); out != "got aa,got bb" || strings.Contains(history, "fault") || strings.Contains(history, "gap") {
				t.Errorf("%s %s: %q\n%s", desc.StreamName, when, out, history)
			}
		}
		single := desc == sumDesc
		for _, c := range []struct {
			fault  faultloom.Fault
			output string
			ran    bool
			end    string
		}{
			{faultloom.Fault{Kind: wire.Unavailable}, "!Unavailable", false, "1 failed 14\n"},
			{faultloom.Fault{Kind: wire.Status, Arg: 8}, "!ResourceExhausted", false, "1 reply 8\n"},
			{faultloom.Fault{Kind: wire.Deadline}, "!DeadlineExceeded", false, "1 failed 4\n"},
			{faultloom.Fault{Kind: wire.Reset}, "!Unavailable", false, "1 failed 14\n"},
			{faultloom.Fault{Kind: wire.Delay, Arg: 30}, "got aa,got bb", true, "1 reply 0\n"},
			{faultloom.Fault{Kind: wire.Hang, Arg: 30}, "!DeadlineExceeded", false, "1 failed 4\n"},
			{faultloom.Fault{Kind: wire.LostReply}, "!Unavailable", true, "1 failed 14\n"},
			{faultloom.Fault{Kind: wire.EmptyReply}, map[bool]string{false: ",", true: ""}[single], true, "1 reply 0\n"},
			{faultloom.Fault{Kind: wire.CorruptReply}, map[bool]string{false: "go\xff\xff\xff\xff", true: ""}[single], true, "1 reply 0\n"},
		} {
			t.Run(desc.StreamName+" "+c.fault.Kind.String(), func(t *testing.T) {
				healthy("before")
				c.fault.Selector = faultloom.Selector{Caller: "loadgen", Call: desc.StreamName}
				out, history := play(c.fault)
				if c.fault.Kind == wire.CorruptReply { // the library either decodes the corrupt bytes or reports an invalid length
					c.output = out
					if !strings.Contains(out, "\xff") && !strings.Contains(out, "!Internal") {
						t.Errorf("not corrupt: %q", out)
					}
				}
				if out != c.output || !strings.Contains(history, "fault 0\n") || !strings.Contains(history, c.end) || strings.Contains(history, "gap") {
					t.Errorf("got %q, want %q\n%s", out, c.output, history)
				}
				if strings.Contains(history, `front ""`) != c.ran {
					t.Errorf("ran: want %v\n%s", c.ran, history)
				}
				healthy("after")
			})
		}
	}
	// faults inside a stream, and conditions on a stream
	ctx, r := start(t, faultloom.Options{Plan: []faultloom.Fault{{Kind: wire.Status, Arg: 5, Selector: faultloom.Selector{Caller: "front", Callee: "back"}, Nth: 2}}})
	out, err := read(ctx, m.cc, chatDesc, "a b c")
	if out != "got a" || status.Code(err) != codes.NotFound {
		t.Errorf("%q %v\n%s", out, err, FormatHistory(finish(t, r)))
	}
	ctx, _ = start(t, faultloom.Options{Plan: []faultloom.Fault{{Kind: wire.Unavailable, Selector: faultloom.Selector{Call: "Chat"},
		After: []faultloom.After{{Selector: faultloom.Selector{Call: "Get"}, Times: 3}}}}})
	first, err := read(ctx, m.cc, chatDesc, "a b c")
	_, err2 := read(ctx, m.cc, chatDesc, "a")
	if first != "got a,got b,got c" || err != nil || status.Code(err2) != codes.Unavailable {
		t.Errorf("a condition does not count the calls in pieces: %q %v, %v", first, err, err2)
	}
}

func streamManyEvents(t *testing.T) {
	m := newMarket(t)
	ctx, r := start(t, faultloom.Options{})
	const calls = 1250
	if _, err := read(ctx, m.cc, listDesc, strings.Repeat("a ", calls)); err != nil {
		t.Fatal(err)
	}
	if h := finish(t, r); CountEvents(h) < 5000 || strings.Contains(FormatHistory(h), "gap") || strings.Contains(FormatHistory(h), "truncated") {
		t.Errorf("%d events", CountEvents(h))
	}
	// with one reply only, which carries everything except the SendResponse
	ctx, r = start(t, faultloom.Options{})
	if _, err := read(ctx, m.cc, sumDesc, strings.Repeat("a ", calls)); err != nil {
		t.Fatal(err)
	}
	if h := finish(t, r); CountEvents(h) < 5000 || strings.Contains(FormatHistory(h), "gap") || strings.Contains(FormatHistory(h), "truncated") {
		t.Errorf("%d events", CountEvents(h))
	}
}

// Pieces that would make a message too large wait. What does not fit into the trailer is truncated.
func streamSmallLimit(t *testing.T) {
	m := newMarket(t)
	for limit, truncated := range map[int]bool{1000: false, 60: false, 13: true} {
		for _, n := range []int{3, 200} {
			ctx, r := start(t, faultloom.Options{})
			out, err := read(ctx, m.cc, listDesc, strings.Repeat("a ", n), grpc.MaxCallRecvMsgSize(limit))
			if err != nil || strings.Count(out, "got a") != n {
				t.Fatalf("limit %d, %d messages: %v", limit, n, err)
			}
			e := finish(t, r).Events[1]
			if e.Child == nil || e.Status != 0 || e.Child.Events[len(e.Child.Events)-1].Kind != wire.SendResponse {
				t.Fatalf("limit %d, %d messages: %+v", limit, n, e)
			}
			if want := n == 200 && (truncated || limit == 60); e.Child.Truncated != want {
				t.Errorf("limit %d, %d messages: truncated is %v, want %v", limit, n, e.Child.Truncated, want)
			}
		}
	}
}

func streamPeersWithoutSDK(t *testing.T) {
	chat := func(s grpc.ServerStream) error {
		if md, _ := metadata.FromIncomingContext(s.Context()); len(md[wire.GRPCKey]) == 0 && scope.Current(s.Context()) != nil {
			return status.Error(codes.Internal, "a scope without an envelope")
		}
		for in := new(Message); s.RecvMsg(in) == nil; in = new(Message) {
			if err := s.SendMsg(in); err != nil {
				return err
			}
		}
		return nil
	}
	server := serveAll(t, nil, streams{"Chat": chat})
	ctx, r := start(t, faultloom.Options{})
	if out, err := read(ctx, dial(t, server), chatDesc, "a b"); err != nil || out != "a,b" {
		t.Error(out, err)
	}
	expect(t, finish(t, r), `loadgen ""`, "  1 send /shop.Service/Chat to "+server, "  1 reply 0 gap", "  answer 0")

	cc := dialWithoutHooks(t, serveAll(t, nil, streams{"Chat": chat}, withHooks(Process(t, "server"))))
	s, err := open(context.Background(), cc, chatDesc)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 3; i++ {
		if err := send(s, "hi"); err != nil {
			t.Fatal(err)
		}
		if out, err := recv(s); err != nil || out != "hi" {
			t.Fatal(out, err)
		}
	}
	s.CloseSend()
	if _, err := recv(s); err != io.EOF || len(s.Trailer()[wire.GRPCKey]) > 0 {
		t.Error(err, s.Trailer())
	}
	// faults also work on a callee without the SDK
	ctx, r = start(t, faultloom.Options{Plan: []faultloom.Fault{{Kind: wire.LostReply}}})
	if out, err := read(ctx, dial(t, server), chatDesc, "a b"); status.Code(err) != codes.Unavailable || out != "" {
		t.Error(out, err)
	}
	expect(t, finish(t, r), `loadgen ""`, "  1 send /shop.Service/Chat to "+server+" fault 0", "  1 failed 14 gap", "  answer 0")
}

// wrappedStream is a stream that one of the program's own interceptors has wrapped.
type wrappedStream struct {
	grpc.ServerStream
	foreign *bool
}

func (w wrappedStream) SendMsg(m any) error {
	if _, ok := m.(*Message); !ok {
		*w.foreign = true
	}
	return w.ServerStream.SendMsg(m)
}

func streamForeign(t *testing.T) {
	var foreign bool
	watch := func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		return next(srv, wrappedStream{s, &foreign})
	}
	for name, c := range map[string]struct {
		server []grpc.ServerOption
		call   []grpc.CallOption
	}{
		"content subtype":   {nil, []grpc.CallOption{grpc.CallContentSubtype("json")}},
		"forced by both":    {[]grpc.ServerOption{grpc.ForceServerCodec(jsonCodec{})}, []grpc.CallOption{grpc.ForceCodec(jsonCodec{})}},
		"forced by server":  {[]grpc.ServerOption{grpc.ForceServerCodec(plainProto{})}, nil},
		"outer interceptor": {[]grpc.ServerOption{grpc.StreamInterceptor(watch)}, nil},
		"inner interceptor": {[]grpc.ServerOption{grpc.ChainStreamInterceptor(watch)}, nil},
	} {
		m := newMarket(t, c.server...)
		ctx, r := start(t, faultloom.Options{})
		if out, err := read(ctx, m.cc, chatDesc, "a b", c.call...); err != nil || out != "got a,got b" {
			t.Errorf("%s: %q %v", name, out, err)
		}
		expect(t, finish(t, r), m.lines("Chat", "reply 0", "answer 0", 0, 0)...)
		if foreign {
			t.Errorf("%s: the interceptor did not get the program's own type", name)
		}
		// faults on replies, where the codec is not ours
		for _, kind := range []wire.Kind{wire.EmptyReply, wire.CorruptReply} {
			ctx, _ := start(t, faultloom.Options{Plan: []faultloom.Fault{{Kind: kind, Selector: faultloom.Selector{Call: "Chat"}}}})
			if out, err := read(ctx, m.cc, chatDesc, "a b", c.call...); strings.Contains(out, "got a") || (kind == wire.EmptyReply && err != nil) {
				t.Errorf("%s %s: %q %v", name, kind, out, err)
			}
		}
	}
}

func streamErrors(t *testing.T) {
	m := newMarket(t)
	for _, desc := range []*grpc.StreamDesc{listDesc, sumDesc, chatDesc} {
		ctx, r := start(t, faultloom.Options{})
		if _, err := read(ctx, m.cc, desc, "a missing b"); status.Code(err) != codes.NotFound {
			t.Error(err)
		}
		expect(t, finish(t, r), m.lines(desc.StreamName, "reply 5", "answer 5", 0, 5)...)
	}
	// a channel that cannot connect
	cc := dial(t, "127.0.0.1:1")
	ctx, r := start(t, faultloom.Options{})
	if _, err := read(ctx, cc, chatDesc, "a"); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	expect(t, finish(t, r), `loadgen ""`, "  1 send /shop.Service/Chat to 127.0.0.1:1", "  1 failed 14 gap", "  answer 0")
}

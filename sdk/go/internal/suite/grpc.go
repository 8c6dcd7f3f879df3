package suite

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/trust"
	"faultloom.dev/go/message/wire"
)

// shop is front → back, both with the SDK, and a connection to front.
type shop struct {
	front        *grpc.ClientConn
	back         string
	backRan      func() int
	frontProcess *scope.Process
	backProcess  *scope.Process
}

func echo(_ context.Context, in *Message) (*Message, error) { return &Message{Value: in.Value}, nil }

func newShop(t testing.TB) *shop {
	s := &shop{frontProcess: Process(t, "front"), backProcess: Process(t, "back")}
	var mu sync.Mutex
	ran := 0
	s.backRan = func() int { mu.Lock(); defer mu.Unlock(); n := ran; ran = 0; return n }
	s.back = serve(t, methods{
		"Get": func(ctx context.Context, in *Message) (*Message, error) {
			mu.Lock()
			ran++
			mu.Unlock()
			if string(in.Value) == "missing" {
				return nil, status.Error(codes.NotFound, "no such thing")
			}
			return &Message{Value: append([]byte("got "), in.Value...)}, nil
		},
	}, withHooks(s.backProcess))
	s.frontProcess.Peers[s.back] = "back"
	cc := dial(t, s.back)
	s.front = dial(t, serve(t, methods{
		// Page calls Get for each word of its request, one after the other, and returns the results.
		"Page": func(ctx context.Context, in *Message) (*Message, error) {
			var results []string
			for _, item := range strings.Fields(string(in.Value)) {
				out, err := call(ctx, cc, "Get", []byte(item))
				if err != nil {
					results = append(results, status.Code(err).String())
				} else {
					results = append(results, string(out))
				}
			}
			return &Message{Value: []byte(strings.Join(results, ","))}, nil
		},
	}, withHooks(s.frontProcess)))
	return s
}

// RunAll runs the whole suite.
func RunAll(t *testing.T) {
	for name, f := range map[string]func(*testing.T){
		"history_is_complete_over_three_services":          historyIsComplete,
		"server_without_sdk_is_a_gap":                      serverWithoutSDK,
		"client_without_sdk_gets_unchanged_replies":        clientWithoutSDK,
		"reply_near_the_receive_limit_arrives":             receiveLimits,
		"server_send_limit_is_respected":                   sendLimit,
		"five_thousand_events_are_returned":                manyEvents,
		"error_reply_carries_history_in_trailer":           errorReply,
		"each_fault_healthy_disturbed_healthy":             eachFault,
		"after_nth_and_max_fires":                          faultConditions,
		"faults_work_on_a_callee_without_sdk":              faultsWithoutSDK,
		"no_context_no_injection":                          noContext,
		"inactive_without_key":                             inactive,
		"faults_off_at_runtime":                            faultsOff,
		"keys_rotate":                                      rotation,
		"expired_and_foreign_envelopes_are_ignored":        refusedEnvelopes,
		"foreign_codecs_get_trailers_only":                 foreignCodecs,
		"outer_interceptor_gets_the_programs_reply_type":   outerInterceptor,
		"shared_reply_message_is_never_changed":            sharedReply,
		"each_kind_of_stream_with_nested_calls":            streamKinds,
		"a_canceled_stream_has_its_history_until_then":     streamCanceled,
		"an_open_stream_ends_with_its_scope":               streamLeftOpen,
		"each_fault_on_streams_healthy_disturbed_healthy":  streamFaults,
		"a_stream_returns_five_thousand_events":            streamManyEvents,
		"a_small_receive_limit_makes_pieces_wait":          streamSmallLimit,
		"streams_with_peers_without_sdk":                   streamPeersWithoutSDK,
		"streams_with_foreign_codecs_and_interceptors":     streamForeign,
		"a_failed_stream_carries_history_in_the_trailer":   streamErrors,
		"a_call_starts_before_its_connection":              connectionSetUp,
		"retry_is_not_a_replay":                            retry,
		"envelopes_go_into_a_field_once_announced":         fields,
		"fields_are_announced_only_if_safe":                fieldsNotAnnounced,
		"a_callee_that_takes_no_field_gets_metadata_again": fieldsForgotten,
		"a_refused_field_is_removed_from_the_message":      fieldsRefused,
		"a_field_overrides_forwarded_metadata":             fieldBeforeMetadata,
		"sampled_requests_are_exported_once":               sampled,
		"a_hop_that_propagates_baggage_is_bridged":         func(t *testing.T) { RunBridge(t, propagatingHop) },
	} {
		t.Run(name, f)
	}
}

func historyIsComplete(t *testing.T) {
	s := newShop(t)
	ctx, r := start(t, faultloom.Options{})
	out, err := call(ctx, s.front, "Page", []byte("a missing"))
	if err != nil || string(out) != "got a,NotFound" {
		t.Fatal(string(out), err)
	}
	front := s.front.Target()[len("passthrough:///"):]
	expect(t, finish(t, r), `loadgen ""`, "  1 send /shop.Service/Page to "+front, "  1 reply 0",
		`    front ""`, "      1 send /shop.Service/Get to back", "      1 reply 0", `        back ""`, "          answer 0",
		"      2 send /shop.Service/Get to back", "      2 reply 5", `        back ""`, "          answer 5", "      answer 0", "  answer 0")
}

func sizes() []int { return []int{0, 1, 100, 100_000, 3_900_000, 4<<20 - 100, 4<<20 - 6} }

func serverWithoutSDK(t *testing.T) {
	cc := dial(t, serve(t, methods{"Echo": echo}, grpc.MaxRecvMsgSize(8<<20)))
	for _, n := range sizes() {
		ctx, r := start(t, faultloom.Options{})
		in := bytes.Repeat([]byte{7}, n)
		out, err := call(ctx, cc, "Echo", in)
		if err != nil || !bytes.Equal(in, out) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if e := finish(t, r).Events[1]; e.Kind != wire.RecvResponse || !e.Gap || e.Status != 0 {
			t.Errorf("%d bytes: %+v", n, e)
		}
	}
}

func clientWithoutSDK(t *testing.T) {
	cc := dialWithoutHooks(t, serve(t, methods{"Echo": echo}, grpc.MaxRecvMsgSize(8<<20), withHooks(Process(t, "server"))))
	for _, n := range sizes() {
		in := bytes.Repeat([]byte{7}, n)
		var header, trailer metadata.MD
		out, err := call(context.Background(), cc, "Echo", in, grpc.Header(&header), grpc.Trailer(&trailer))
		if err != nil || !bytes.Equal(in, out) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if len(header[wire.GRPCKey])+len(trailer[wire.GRPCKey]) > 0 {
			t.Fatal("an unrequested history was sent")
		}
	}
}

func receiveLimits(t *testing.T) {
	address := serve(t, methods{"Echo": echo}, grpc.MaxRecvMsgSize(16<<20), withHooks(Process(t, "server")))
	config := `{"methodConfig":[{"name":[{"service":"shop.Service"}],"maxResponseMessageBytes":65536}]}`
	for _, c := range []struct {
		n    int
		dial []grpc.DialOption
		opts []grpc.CallOption
	}{
		{4<<20 - 200, nil, nil}, {4<<20 - 40, nil, nil}, {4<<20 - 5, nil, nil},
		{4 << 20, []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(5 << 20))}, nil},
		{1000, nil, []grpc.CallOption{grpc.MaxCallRecvMsgSize(5000), grpc.MaxCallRecvMsgSize(1010)}},
		{65000, []grpc.DialOption{grpc.WithDefaultServiceConfig(config)}, nil},
		{65530, []grpc.DialOption{grpc.WithDefaultServiceConfig(config)}, nil},
	} {
		ctx, r := start(t, faultloom.Options{})
		in := bytes.Repeat([]byte{7}, c.n)
		out, err := call(ctx, dial(t, address, c.dial...), "Echo", in, c.opts...)
		if err != nil || !bytes.Equal(in, out) {
			t.Fatalf("%d bytes: %v", c.n, err)
		}
		if h := finish(t, r); h.Events[1].Gap || h.Events[1].Child == nil {
			t.Errorf("%d bytes: no history: %s", c.n, FormatHistory(h))
		}
	}
}

func sendLimit(t *testing.T) {
	cc := dial(t, serve(t, methods{"Echo": echo}, grpc.MaxSendMsgSize(1100), withHooks(Process(t, "server"))))
	ctx, r := start(t, faultloom.Options{})
	if out, err := call(ctx, cc, "Echo", make([]byte, 1090)); err != nil || len(out) != 1090 {
		t.Fatal(err)
	}
	if h := finish(t, r); h.Events[1].Child == nil {
		t.Error(FormatHistory(h))
	}
}

func manyEvents(t *testing.T) {
	s := newShop(t)
	ctx, r := start(t, faultloom.Options{})
	const calls = 1250
	if _, err := call(ctx, s.front, "Page", []byte(strings.Repeat("a ", calls))); err != nil {
		t.Fatal(err)
	}
	h := finish(t, r)
	if n := CountEvents(h); n < 5000 || strings.Contains(FormatHistory(h), "gap") {
		t.Errorf("%d events", n)
	}
	// and in a trailer that only has room for the SendResponse
	ctx, r = start(t, faultloom.Options{})
	if _, err := call(ctx, s.front, "Page", []byte(strings.Repeat("a ", calls)), grpc.CallContentSubtype("proto2")); err == nil {
		t.Fatal("content subtype proto2 is not registered")
	}
	if h := finish(t, r); h.Events[1].Child != nil {
		t.Error(FormatHistory(h))
	}
}

func errorReply(t *testing.T) {
	back := dial(t, serve(t, methods{"Get": echo}, withHooks(Process(t, "back"))))
	cc := dial(t, serve(t, methods{"Fail": func(ctx context.Context, in *Message) (*Message, error) {
		for i := 0; i < int(in.Value[0]); i++ {
			if _, err := call(ctx, back, "Get", nil); err != nil {
				return nil, err
			}
		}
		return nil, status.Error(codes.FailedPrecondition, "no")
	}}, withHooks(Process(t, "front"))))
	for _, n := range []byte{1, 50, 250} {
		ctx, r := start(t, faultloom.Options{})
		_, err := call(ctx, cc, "Fail", []byte{n})
		if status.Code(err) != codes.FailedPrecondition {
			t.Fatal(err)
		}
		e := finish(t, r).Events[1]
		if e.Status != 9 || e.Child == nil || e.Child.Events[len(e.Child.Events)-1].Kind != wire.SendResponse {
			t.Fatalf("%d: %+v", n, e)
		}
		if e.Child.Truncated != (n == 250) {
			t.Errorf("%d calls: truncated is %v", n, e.Child.Truncated)
		}
	}
}

func eachFault(t *testing.T) {
	s := newShop(t)
	page := func(plan ...faultloom.Fault) (string, string, time.Duration) {
		ctx, r := start(t, faultloom.Options{Plan: plan})
		begin := time.Now()
		out, err := call(ctx, s.front, "Page", []byte("a"))
		if err != nil {
			t.Fatal(err)
		}
		return string(out), FormatHistory(finish(t, r).Events[1].Child), time.Since(begin)
	}
	healthy := func(when string) {
		t.Helper()
		out, history, _ := page()
		if out != "got a" || strings.Contains(history, "fault") || s.backRan() != 1 {
			t.Errorf("%s: %q\n%s", when, out, history)
		}
	}
	at := faultloom.Selector{Caller: "front", Callee: "back", Call: "Get"}
	for _, c := range []struct {
		fault  faultloom.Fault
		output string
		ran    int
		end    string
	}{
		{faultloom.Fault{Kind: wire.Unavailable}, "Unavailable", 0, "1 failed 14\n"},
		{faultloom.Fault{Kind: wire.Status, Arg: 8}, "ResourceExhausted", 0, "1 reply 8\n"},
		{faultloom.Fault{Kind: wire.Deadline}, "DeadlineExceeded", 0, "1 failed 4\n"},
		{faultloom.Fault{Kind: wire.Reset}, "Unavailable", 0, "1 failed 14\n"},
		{faultloom.Fault{Kind: wire.Delay, Arg: 60}, "got a", 1, "1 reply 0\n"},
		{faultloom.Fault{Kind: wire.Hang, Arg: 60}, "DeadlineExceeded", 0, "1 failed 4\n"},
		{faultloom.Fault{Kind: wire.LostReply}, "Unavailable", 1, "1 failed 14\n"},
		{faultloom.Fault{Kind: wire.EmptyReply}, "", 1, "1 reply 0\n"},
		{faultloom.Fault{Kind: wire.CorruptReply}, "g\xff\xff\xff\xff", 1, "1 reply 0\n"},
	} {
		t.Run(c.fault.Kind.String(), func(t *testing.T) {
			healthy("before")
			c.fault.Selector = at
			out, history, took := page(c.fault)
			if out != c.output || !strings.Contains(history, "fault 0\n") || !strings.Contains(history, c.end) || strings.Contains(history, "gap") {
				t.Errorf("got %q, want %q\n%s", out, c.output, history)
			}
			if ran := s.backRan(); ran != c.ran || strings.Contains(history, `back ""`) != (c.ran == 1) {
				t.Errorf("the callee ran %d times\n%s", ran, history)
			}
			if c.fault.Arg == 60 && took < 60*time.Millisecond {
				t.Errorf("took %v", took)
			}
			healthy("after")
		})
	}
	t.Run("hang ends with the caller's deadline", func(t *testing.T) {
		ctx, _ := start(t, faultloom.Options{Plan: []faultloom.Fault{{Kind: wire.Hang}}})
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if _, err := call(ctx, s.front, "Page", nil); status.Code(err) != codes.DeadlineExceeded {
			t.Error(err)
		}
	})
}

func faultConditions(t *testing.T) {
	s := newShop(t)
	get := faultloom.Selector{Callee: "back", Call: "Get"}
	for _, c := range []struct {
		name  string
		fault faultloom.Fault
		want  string
	}{
		{"always", faultloom.Fault{}, "Aborted,Aborted,Aborted,Aborted"},
		{"nth", faultloom.Fault{Nth: 3}, "got a,got b,Aborted,got d"},
		{"max_fires", faultloom.Fault{MaxFires: 2}, "Aborted,Aborted,got c,got d"},
		{"after", faultloom.Fault{After: []faultloom.After{{Selector: get, Times: 2}}}, "got a,got b,Aborted,Aborted"},
		{"after sent", faultloom.Fault{After: []faultloom.After{{Selector: get, Times: 1}}, AfterSent: true}, "got a,Aborted,Aborted,Aborted"},
		{"after, once", faultloom.Fault{After: []faultloom.After{{Selector: get, Times: 1}}, MaxFires: 1}, "got a,Aborted,got c,got d"},
		{"after something else", faultloom.Fault{After: []faultloom.After{{Selector: faultloom.Selector{Call: "Put"}, Times: 1}}}, "got a,got b,got c,got d"},
	} {
		c.fault.Kind, c.fault.Arg, c.fault.Selector = wire.Status, 10, get
		ctx, _ := start(t, faultloom.Options{Plan: []faultloom.Fault{c.fault}})
		if out, err := call(ctx, s.front, "Page", []byte("a b c d")); err != nil || string(out) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, out, err, c.want)
		}
	}
	// evidence comes back with histories: at the second page, the calls of the first one's callee count
	ctx, _ := start(t, faultloom.Options{Plan: []faultloom.Fault{{Kind: wire.Status, Arg: 10, Selector: get, MaxFires: 3}}})
	first, _ := call(ctx, s.front, "Page", []byte("a b"))
	second, err := call(ctx, s.front, "Page", []byte("c d"))
	if string(first) != "Aborted,Aborted" || string(second) != "Aborted,got d" {
		t.Errorf("fires are counted twice or not at all: %s; %s, %v", first, second, err)
	}
}

func faultsWithoutSDK(t *testing.T) {
	cc := dial(t, serve(t, methods{"Echo": echo}))
	ctx, r := start(t, faultloom.Options{Plan: []faultloom.Fault{
		{Kind: wire.Unavailable, Selector: faultloom.Selector{Call: "Echo"}, Nth: 1},
		{Kind: wire.LostReply, Selector: faultloom.Selector{Call: "Echo"}, Nth: 2},
		{Kind: wire.CorruptReply, Selector: faultloom.Selector{Call: "Echo"}, Nth: 3}}})
	var got []string
	for i := 0; i < 4; i++ {
		_, err := call(ctx, cc, "Echo", []byte("h")) // three bytes, of which the second half begins with the length
		got = append(got, status.Code(err).String())
	}
	if s := strings.Join(got, " "); s != "Unavailable Unavailable Internal OK" {
		t.Error(s)
	}
	a := cc.Target()[len("passthrough:///"):]
	expect(t, finish(t, r), `loadgen ""`,
		"  1 send /shop.Service/Echo to "+a+" fault 0", "  1 failed 14",
		"  2 send /shop.Service/Echo to "+a+" fault 1", "  2 failed 14 gap",
		"  3 send /shop.Service/Echo to "+a+" fault 2", "  3 reply 0 gap",
		"  4 send /shop.Service/Echo to "+a, "  4 reply 0 gap", "  answer 0")
}

func noContext(t *testing.T) {
	values := make(chan int, 1)
	cc := dial(t, serve(t, methods{"Look": func(ctx context.Context, in *Message) (*Message, error) {
		values <- len(metadata.ValueFromIncomingContext(ctx, wire.GRPCKey))
		return in, nil
	}}))
	if _, err := call(context.Background(), cc, "Look", nil); err != nil || <-values != 0 {
		t.Error("something was sent", err)
	}
}

func inactive(t *testing.T) {
	p := &scope.Process{Service: "inactive", Receiver: trust.NewReceiver(nil)}
	got := make(chan bool, 1)
	cc := dial(t, serve(t, methods{"Look": func(ctx context.Context, in *Message) (*Message, error) {
		got <- scope.Current(ctx) != nil
		return in, nil
	}}, withHooks(p)))
	ctx, r := start(t, faultloom.Options{Plan: []faultloom.Fault{{Kind: wire.Unavailable, Selector: faultloom.Selector{Caller: "inactive"}}}})
	var trailer metadata.MD
	if _, err := call(ctx, cc, "Look", nil, grpc.Trailer(&trailer)); err != nil || <-got || len(trailer[wire.GRPCKey]) > 0 {
		t.Error("not inactive", err)
	}
	if e := finish(t, r).Events[1]; !e.Gap || e.Child != nil {
		t.Errorf("%+v", e)
	}
}

func faultsOff(t *testing.T) {
	path, replace := TrustFile(t, Settings)
	s := newShop(t)
	s.frontProcess.Receiver = trust.NewReceiverFromFile(path)
	page := func() (string, string) {
		ctx, r := start(t, faultloom.Options{Plan: []faultloom.Fault{{Kind: wire.Unavailable, Selector: faultloom.Selector{Callee: "back"}}}})
		out, err := call(ctx, s.front, "Page", []byte("a"))
		if err != nil {
			t.Fatal(err)
		}
		return string(out), FormatHistory(finish(t, r))
	}
	if out, _ := page(); out != "Unavailable" {
		t.Fatal(out)
	}
	replace(strings.Replace(Settings, "faults on", "faults off", 1))
	Eventually(t, "faults off", func() bool {
		out, history := page()
		return out == "got a" && strings.Contains(history, `front "" faults-off`)
	})
	replace(Settings)
	Eventually(t, "faults on again", func() bool { out, _ := page(); return out == "Unavailable" })

	// the switch also ends a running hang
	done := make(chan time.Duration, 1)
	go func() {
		begin := time.Now()
		ctx, _ := start(t, faultloom.Options{Plan: []faultloom.Fault{{Kind: wire.Hang, Selector: faultloom.Selector{Callee: "back"}}}})
		call(ctx, s.front, "Page", []byte("a"))
		done <- time.Since(begin)
	}()
	replace(strings.Replace(Settings, "faults on", "faults off", 1))
	if took := <-done; took > 10*time.Second {
		t.Errorf("the hang went on for %v", took)
	}
}

func rotation(t *testing.T) {
	path, replace := TrustFile(t, "environment demo\nkey trace old "+TraceKey)
	p := Process(t, "server")
	p.Receiver = trust.NewReceiverFromFile(path)
	cc := dial(t, serve(t, methods{"Echo": echo}, withHooks(p)))
	accepts := func(id, key string) bool {
		ctx, r := start(t, faultloom.Options{Trust: ParseSettings(t, "environment demo\nkey trace "+id+" "+key)})
		if _, err := call(ctx, cc, "Echo", nil); err != nil {
			t.Fatal(err)
		}
		return finish(t, r).Events[1].Child != nil
	}
	if !accepts("old", TraceKey) || accepts("new", FaultKey) {
		t.Fatal("the old key should be the only one")
	}
	replace("environment demo\nkey trace old " + TraceKey + "\nkey trace new " + FaultKey)
	Eventually(t, "both keys are accepted", func() bool { return accepts("old", TraceKey) && accepts("new", FaultKey) })
	replace("environment demo\nkey trace new " + FaultKey)
	Eventually(t, "the old key is rejected", func() bool { return !accepts("old", TraceKey) && accepts("new", FaultKey) })
	replace("nonsense")
	Eventually(t, "invalid settings disable the SDK", func() bool { return !accepts("new", FaultKey) })
	replace(Settings)
	Eventually(t, "valid settings enable the SDK again", func() bool { return accepts("t1", TraceKey) })
}

func refusedEnvelopes(t *testing.T) {
	p := Process(t, "server")
	cc := dialWithoutHooks(t, serve(t, methods{"Look": func(ctx context.Context, in *Message) (*Message, error) {
		return &Message{Value: []byte(fmt.Sprint(scope.Current(ctx) != nil))}, nil
	}}, withHooks(p)))
	now := time.Now()
	for _, c := range []struct {
		name string
		want string
		edit func(*wire.Signed)
	}{
		{"good", "true", func(*wire.Signed) {}},
		{"expired", "false", func(s *wire.Signed) { s.Expires = uint32(now.Unix() - 1) }},
		{"too far", "false", func(s *wire.Signed) { s.Expires = uint32(now.Unix() + 700) }},
		{"another environment", "false", func(s *wire.Signed) { s.Environment = "prod" }},
		{"unknown key", "false", func(s *wire.Signed) { s.KeyID = "t2" }},
		{"plan by a trace key", "false", func(s *wire.Signed) { s.Plan = []wire.Fault{{Kind: wire.Reset}} }},
	} {
		signed := wire.Signed{History: true, Expires: uint32(now.Unix() + 60), KeyID: "t1", Environment: "demo"}
		c.edit(&signed)
		part, err := wire.AppendSignedPart(nil, &signed)
		if err != nil {
			t.Fatal(err)
		}
		signedPrefix := ParseSettings(t, Settings).Key("t1").Sign(nil, part)
		raw, err := wire.AssembleEnvelope(string(signedPrefix), 1, 0, 0, nil) // the history comes in the trailer
		if err != nil {
			t.Fatal(err)
		}
		ctx := metadata.AppendToOutgoingContext(context.Background(), wire.GRPCKey, raw)
		if out, err := call(ctx, cc, "Look", nil); err != nil || string(out) != c.want {
			t.Errorf("%s: %s %v", c.name, out, err)
		}
	}
}

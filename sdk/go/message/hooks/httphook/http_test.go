package httphook_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/internal/suite"
	"faultloom.dev/go/message/hooks/httphook"
	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/trust"
	"faultloom.dev/go/message/wire"
)

// headers formats the headers of a reply, without those that a history changes on purpose.
func headers(h http.Header) string {
	h = h.Clone()
	for _, k := range []string{"Date", "Cache-Control", "Vary"} {
		h.Del(k)
	}
	text, _ := json.Marshal(h)
	return string(text)
}

func TestHistoryIsCompleteAndRepliesAreUnchanged(t *testing.T) {
	for _, c := range []struct{ calls, body int }{{1, 5}, {1, 0}, {40, 5}, {40, 0}, {40, 3000}, {40, 40_000}, {40, 3 << 20}, {0, 3 << 20}, {1250, 100_000}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			body := strings.Repeat("0123456789", c.body/10+1)[:c.body]
			url := suite.HTTPServer(t, suite.Process(t, "front"), suite.Fan(t, c.calls, body))
			plain, want, err := suite.Get(context.Background(), suite.HTTPClient(t), url+"/page/7")
			if err != nil || want != body {
				t.Fatal(err)
			}
			ctx, r := suite.Begin(t, faultloom.Options{})
			resp, got, err := suite.Get(ctx, suite.HTTPClient(t), url+"/page/7")
			if err != nil || got != body {
				t.Fatalf("%d bytes instead of %d: %v", len(got), len(body), err)
			}
			if resp.ContentLength != -1 && resp.ContentLength != int64(len(body)) {
				t.Error("content length", resp.ContentLength)
			}
			h, p := resp.Header.Clone(), plain.Header.Clone()
			h.Del("Content-Length")
			p.Del("Content-Length")
			if headers(h) != headers(p) {
				t.Errorf("headers %s instead of %s", headers(h), headers(p))
			}
			s := suite.End(t, r)
			formatted := suite.FormatHistory(s)
			if events := suite.CountEvents(s); strings.Contains(formatted, "truncated") || strings.Contains(formatted, "gap") {
				if c.body > 32<<10 && c.calls == 0 {
					t.Log("small history after an early header: by tail")
				}
				t.Errorf("%d events:\n%.300s", events, formatted)
			} else if events != 4+2+4*c.calls {
				t.Errorf("%d events", events)
			}
			if !strings.Contains(formatted, `front "GET /page/{id}"`) {
				t.Errorf("%.200s", formatted)
			}
		})
	}
}

func TestRouteTemplatesNameCalls(t *testing.T) {
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter, r *http.Request) {}
	mux.HandleFunc("GET /cart/{user}", ok)
	mux.HandleFunc("/static/", ok)
	mux.HandleFunc("/{$}", ok)
	url := suite.HTTPServer(t, suite.Process(t, "front"), mux)
	for path, want := range map[string]string{"/cart/jo": "GET /cart/{user}", "/static/a/17.png": "GET /static/a/17.png", "/": "GET /", "/none/77": "GET /none/{id}"} {
		ctx, r := suite.Begin(t, faultloom.Options{})
		if _, _, err := suite.Get(ctx, suite.HTTPClient(t), url+path); err != nil {
			t.Fatal(err)
		}
		if got := suite.End(t, r).Events[1].Child.Name; got != want {
			t.Errorf("%s is called %q, want %q", path, got, want)
		}
	}
}

func TestACallStartsBeforeItsConnection(t *testing.T) {
	url := suite.HTTPServer(t, suite.Process(t, "front"), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	const setUp = 80 * time.Millisecond
	for _, timeout := range []time.Duration{5 * time.Second, setUp / 2} {
		base := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			select {
			case <-time.After(setUp):
				return new(net.Dialer).DialContext(ctx, network, address)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		t.Cleanup(base.CloseIdleConnections)
		ctx, r := suite.Begin(t, faultloom.Options{})
		limited, cancel := context.WithTimeout(ctx, timeout)
		_, _, err := suite.Get(limited, &http.Client{Transport: httphook.Transport(base)}, url)
		cancel()
		if (err != nil) != (timeout < setUp) {
			t.Fatal(err)
		}
		events := suite.End(t, r).Events
		if took := time.Duration(events[1].AtUS-events[0].AtUS) * time.Microsecond; took < min(timeout, setUp)*9/10 {
			t.Errorf("the call took %v with a timeout of %v", took, timeout)
		}
	}
}

func TestRepliesThatMustNotHaveATailAreUnchanged(t *testing.T) {
	history := suite.Fan(t, 40, "")
	big := func(f http.HandlerFunc) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			history.ServeHTTP(httptest.NewRecorder(), r)
			f(w, r)
		})
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	io.WriteString(z, "hello")
	z.Close()
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		edit    func(*http.Request)
		status  int
		body    string
		gap     bool
	}{
		{"created", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201); io.WriteString(w, "new") }, nil, 201, "new", false},
		{"no content", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }, nil, 204, "", false},
		{"encoded by the handler", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(zipped.Bytes())
		}, nil, 200, "hello", false},
		{"program decompresses itself", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "raw") },
			func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip, br") }, 200, "raw", false},
		{"head", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "77") },
			func(r *http.Request) { r.Method = "HEAD" }, 200, "", false},
		{"digest", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Digest", "x"); io.WriteString(w, "d") }, nil, 200, "d", false},
		{"flushed and neither 200 nor an error", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(203)
			w.(http.Flusher).Flush()
			io.WriteString(w, "late")
		}, nil, 203, "late", true},
		{"a stream of events", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			w.(http.Flusher).Flush()
			io.WriteString(w, "data: 1\n\n")
		}, nil, 200, "data: 1\n\n", true},
		{"changed too late", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(201)
			w.WriteHeader(202)
			w.Header().Set("X-Late", "1")
		}, nil, 201, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := suite.HTTPServer(t, suite.Process(t, "front"), big(c.handler))
			ctx, r := suite.Begin(t, faultloom.Options{})
			edit := c.edit
			if edit == nil {
				edit = func(*http.Request) {}
			}
			resp, body, err := suite.Get(ctx, suite.HTTPClient(t), url, edit)
			if err != nil || resp.StatusCode != c.status || body != c.body || resp.Header.Get("X-Late") != "" {
				t.Fatalf("%v %v %q", err, resp, body)
			}
			e := suite.End(t, r).Events[1]
			if e.Gap != c.gap || (!c.gap && !e.Child.Truncated) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// The history of a failure matters most, so an error page carries its whole history, however large.
func TestErrorPageCarriesItsWholeHistory(t *testing.T) {
	fan := suite.Fan(t, 40, "")
	url := suite.HTTPServer(t, suite.Process(t, "front"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fan.ServeHTTP(httptest.NewRecorder(), r)
		http.Error(w, "no", http.StatusServiceUnavailable)
	}))
	ctx, r := suite.Begin(t, faultloom.Options{})
	resp, body, err := suite.Get(ctx, suite.HTTPClient(t), url)
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || body != "no\n" {
		t.Fatalf("%v %v %q", err, resp, body)
	}
	if e := suite.End(t, r).Events[1]; e.Gap || e.Child == nil || e.Child.Truncated || len(e.Child.Events) != 81 {
		t.Errorf("%+v", e)
	}
}

func TestPeersWithoutTheSDK(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Faultloom") != "", scope.Current(r.Context()) != nil)
	})
	stock, sdk := suite.HTTPServer(t, nil, handler), suite.HTTPServer(t, suite.Process(t, "s"), handler)
	inactive := suite.HTTPServer(t, &scope.Process{Service: "inactive", Receiver: trust.NewReceiver(nil)}, handler)
	for _, c := range []struct {
		name, url, want string
		client          *http.Client
		gap             bool
	}{
		{"SDK client, stock server", stock, "true false", suite.HTTPClient(t), true},
		{"SDK client, server without keys", inactive, "true false", suite.HTTPClient(t), true},
		{"SDK on both sides", sdk, "false true", suite.HTTPClient(t), false},
	} {
		ctx, r := suite.Begin(t, faultloom.Options{})
		resp, body, err := suite.Get(ctx, c.client, c.url)
		if err != nil || body != c.want {
			t.Errorf("%s: %q %v", c.name, body, err)
		}
		if e := suite.End(t, r).Events[1]; e.Gap != c.gap || e.Status != 200 {
			t.Errorf("%s: %+v", c.name, e)
		}
		for k := range resp.Header {
			if strings.HasPrefix(k, "X-Faultloom") {
				t.Errorf("%s: the program gets %s", c.name, k)
			}
		}
	}
	resp, body, err := suite.Get(context.Background(), http.DefaultClient, sdk)
	if err != nil || body != "false false" || resp.Header.Get("Cache-Control") != "" || resp.ContentLength != 11 {
		t.Errorf("stock client, SDK server: %q %v %v", body, resp, err)
	}
	resp, _, err = suite.Get(context.Background(), http.DefaultClient, sdk, func(r *http.Request) { r.Header.Set("X-Faultloom", "AQIDBA") })
	if err != nil || resp.Header.Get("X-Faultloom-History")+resp.Header.Get("X-Faultloom-Reply") != "" {
		t.Errorf("a refused envelope was answered: %v %v", resp, err)
	}
}

func TestEachFaultHealthyDisturbedHealthy(t *testing.T) {
	ran := 0
	back := suite.HTTPServer(t, suite.Process(t, "back"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ran++
		io.WriteString(w, "good reply")
	}))
	c := suite.HTTPClient(t)
	var gotErr error
	front := suite.HTTPServer(t, suite.Process(t, "front"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var resp *http.Response
		var body string
		if resp, body, gotErr = suite.Get(r.Context(), c, back+"/item/4711"); gotErr == nil {
			fmt.Fprint(w, resp.StatusCode, body)
		}
	}))
	page := func(plan ...faultloom.Fault) (string, string, time.Duration) {
		ctx, r := suite.Begin(t, faultloom.Options{Plan: plan})
		begin := time.Now()
		_, body, err := suite.Get(ctx, suite.HTTPClient(t), front)
		if err != nil {
			t.Fatal(err)
		}
		return body, suite.FormatHistory(suite.End(t, r).Events[1].Child), time.Since(begin)
	}
	healthy := func() {
		t.Helper()
		ran = 0
		if body, history, _ := page(); body != "200good reply" || ran != 1 || strings.Contains(history, "fault") {
			t.Errorf("%q %v\n%s", body, gotErr, history)
		}
		ran = 0
	}
	timeout := func(err error) bool {
		var e net.Error
		return errors.As(err, &e) && e.Timeout() && errors.Is(err, context.DeadlineExceeded)
	}
	for _, c := range []struct {
		fault faultloom.Fault
		body  string
		err   func(error) bool
		ran   int
		end   string
	}{
		{faultloom.Fault{Kind: wire.Unavailable}, "", func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }, 0, "1 failed 14\n"},
		{faultloom.Fault{Kind: wire.Status, Arg: 503}, "503", nil, 0, "1 reply 503\n"},
		{faultloom.Fault{Kind: wire.Deadline}, "", timeout, 0, "1 failed 4\n"},
		{faultloom.Fault{Kind: wire.Reset}, "", func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }, 0, "1 failed 14\n"},
		{faultloom.Fault{Kind: wire.Delay, Arg: 60}, "200good reply", nil, 1, "1 reply 200\n"},
		{faultloom.Fault{Kind: wire.Hang, Arg: 60}, "", timeout, 0, "1 failed 4\n"},
		{faultloom.Fault{Kind: wire.LostReply}, "", func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }, 1, "1 failed 14\n"},
		{faultloom.Fault{Kind: wire.EmptyReply}, "200", nil, 1, "1 reply 200\n"},
		{faultloom.Fault{Kind: wire.CorruptReply}, "200good \xff\xff\xff\xff\xff", nil, 1, "1 reply 200\n"},
	} {
		t.Run(c.fault.Kind.String(), func(t *testing.T) {
			healthy()
			c.fault.Selector = faultloom.Selector{Caller: "front", Call: "GET /item/{id}"}
			body, history, took := page(c.fault)
			if body != c.body || (c.err == nil) != (gotErr == nil) || (c.err != nil && !c.err(gotErr)) {
				t.Errorf("got %q, %v", body, gotErr)
			}
			if ran != c.ran || !strings.Contains(history, "fault 0\n") || !strings.Contains(history, c.end) ||
				strings.Contains(history, "gap") || strings.Contains(history, `back "`) != (c.ran == 1) {
				t.Errorf("the callee ran %d times\n%s", ran, history)
			}
			if c.fault.Arg == 60 && took < 60*time.Millisecond {
				t.Errorf("took %v", took)
			}
			healthy()
		})
	}
}

func TestRealFailuresAreGaps(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	block := make(chan bool)
	slow := suite.HTTPServer(t, nil, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-block }))
	defer close(block)
	ctx, r := suite.Begin(t, faultloom.Options{})
	suite.Get(ctx, suite.HTTPClient(t), "http://"+l.Addr().String())
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	suite.Get(short, suite.HTTPClient(t), slow)
	cancel()
	suite.Expect(t, suite.End(t, r), `loadgen ""`,
		"  1 send GET / to "+l.Addr().String(), "  1 failed 14 gap",
		"  2 send GET / to "+slow[7:], "  2 failed 4 gap", "  answer 0")
}

// A caller that decodes one JSON value and closes the body has not read it to its end. The history still arrives,
// before the caller's next call.
func TestJSONDecoderFindsTheHistory(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		fan := suite.Fan(t, 40, "")
		url := suite.HTTPServer(t, suite.Process(t, "front"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fan.ServeHTTP(httptest.NewRecorder(), r)
			io.WriteString(w, `{"a": 1}`)
			if chunked {
				w.(http.Flusher).Flush()
			}
		}))
		ctx, r := suite.Begin(t, faultloom.Options{Plan: []faultloom.Fault{{Kind: wire.Status, Arg: 418, Selector: faultloom.Selector{Caller: "loadgen"},
			After: []faultloom.After{{Selector: faultloom.Selector{Callee: "127.0.0.1", Call: "item"}, Times: 40}}}}})
		c := suite.HTTPClient(t)
		req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var v struct{ A int }
		if err := json.NewDecoder(resp.Body).Decode(&v); err != nil || v.A != 1 {
			t.Fatal(err)
		}
		resp.Body.Close()
		if next, _, err := suite.Get(ctx, c, url); err != nil || next.StatusCode != 418 {
			t.Errorf("chunked %v: the second call does not have the history of the first: %v %v", chunked, next, err)
		}
		if s := suite.End(t, r); s.Events[1].Gap || s.Events[1].Child == nil {
			t.Error(suite.FormatHistory(s))
		}
	}
}

func TestCallerThatStopsReading(t *testing.T) {
	block := make(chan bool)
	defer close(block)
	url := suite.HTTPServer(t, suite.Process(t, "front"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write(make([]byte, 64<<10))
		w.(http.Flusher).Flush()
		select {
		case <-block:
		case <-r.Context().Done():
		}
	}))
	for _, closes := range []bool{true, false} {
		ctx, r := suite.Begin(t, faultloom.Options{})
		req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		resp, err := suite.HTTPClient(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if closes {
			resp.Body.Close()
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("Close took %v", took)
		}
		s := suite.End(t, r)
		resp.Body.Close()
		suite.Expect(t, s, `loadgen ""`, "  1 send GET / to "+url[7:], "  1 reply 200 gap", "  answer 0")
	}
}

// Server-sent events reach the reader one by one, although a tail may follow.
func TestStreamedTextIsNotDelayed(t *testing.T) {
	next := make(chan bool)
	url := suite.HTTPServer(t, suite.Process(t, "front"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range next {
			io.WriteString(w, "data: x\n\n")
			w.(http.Flusher).Flush()
		}
	}))
	ctx, r := suite.Begin(t, faultloom.Options{})
	go func() { next <- true }()
	req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
	resp, err := suite.HTTPClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(resp.Body)
	for i := 0; i < 5; i++ {
		if line, err := lines.ReadString('\n'); err != nil || line != "data: x\n" {
			t.Fatal(line, err)
		}
		if line, err := lines.ReadString('\n'); err != nil || line != "\n" {
			t.Fatal(line, err)
		}
		if i < 4 {
			next <- true
		}
	}
	close(next)
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
	if e := suite.End(t, r).Events[1]; e.Child == nil {
		t.Errorf("%+v", e)
	}
}

// A cache returns the reply of another call: its tail is removed, and the history is a gap.
func TestTailOfAnotherCall(t *testing.T) {
	foreign := wire.AppendVarint(wire.AppendPrefix(wire.AppendHead(nil, wire.Version, 42), 0, "cached", "", 7), wire.SendResponse)
	foreign = append(foreign, 0, 200, 1)
	for _, body := range [][]byte{[]byte("hello"), {}, bytes.Repeat([]byte{1}, 100_000), []byte(strings.Repeat("\x01\x02", 5000))} {
		for _, length := range []bool{true, false} {
			url := suite.HTTPServer(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Faultloom-Reply", "tail")
				whole := wire.AppendTail(append([]byte(nil), body...), foreign)
				if length {
					w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
				}
				w.Write(whole[:len(whole)/2])
				w.(http.Flusher).Flush()
				w.Write(whole[len(whole)/2:])
			}))
			ctx, r := suite.Begin(t, faultloom.Options{})
			_, got, err := suite.Get(ctx, suite.HTTPClient(t), url)
			if err != nil || got != string(body) {
				t.Errorf("%d bytes instead of %d: %v", len(got), len(body), err)
			}
			if e := suite.End(t, r).Events[1]; !e.Gap || e.Child != nil {
				t.Errorf("%+v", e)
			}
		}
	}
}

// A proxy may change the end of a body: what does not begin like a history is the program's.
func TestWrongTailsStayInTheBody(t *testing.T) {
	history := wire.AppendVarint(wire.AppendPrefix(wire.AppendHead(nil, wire.Version, 42), 0, "other", "", 7), wire.SendResponse)
	history = append(history, 0, 200, 1)
	ending := func(content []byte, length int) string {
		return string(append(binary.BigEndian.AppendUint32(content, uint32(length)), wire.Magic...))
	}
	for _, c := range []struct {
		about, end string
	}{
		{"a length that reaches into the body", ending(slices.Clone(history), len(history)+3)},
		{"a length that leaves a part of the history", ending(slices.Clone(history), len(history)-1)},
		{"text in place of a history", ending([]byte("hello"), 5)},
		{"an empty tail", ending(nil, 0)},
		{"no tail", ""},
	} {
		for _, prefetch := range []bool{true, false} {
			body := strings.Repeat("0123456789", 100) + c.end
			url := suite.HTTPServer(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Faultloom-Reply", "tail")
				if prefetch {
					w.Header().Set("Content-Length", strconv.Itoa(len(body)))
				}
				io.WriteString(w, body[:len(body)/2])
				w.(http.Flusher).Flush()
				io.WriteString(w, body[len(body)/2:])
			}))
			ctx, r := suite.Begin(t, faultloom.Options{})
			if _, got, err := suite.Get(ctx, suite.HTTPClient(t), url); err != nil || got != body {
				t.Errorf("%s: %d bytes instead of %d: %v", c.about, len(got), len(body), err)
			}
			if e := suite.End(t, r).Events[1]; !e.Gap || e.Child != nil {
				t.Errorf("%s: %+v", c.about, e)
			}
		}
	}
}

func TestHandlerKeepsTheWritersInterfaces(t *testing.T) {
	p := suite.Process(t, "front")
	var interfaces string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, f := w.(http.Flusher)
		_, h := w.(http.Hijacker)
		_, p := w.(http.Pusher)
		_, rf := w.(io.ReaderFrom)
		interfaces = fmt.Sprint(f, h, p, rf)
		if r.URL.Path == "/hijack" {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
			conn.Close()
			return
		}
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/short" {
			w.Header().Set("Content-Length", "100000")
			w.Write(make([]byte, 50000))
			return
		}
		if n, err := io.Copy(w, io.MultiReader(strings.NewReader(strings.Repeat("a", 50_000)), strings.NewReader("b"))); n != 50_001 || err != nil {
			t.Error(n, err)
		}
	})
	url := suite.HTTPServer(t, p, handler)
	ctx, _ := suite.Begin(t, faultloom.Options{})
	if _, body, err := suite.Get(ctx, suite.HTTPClient(t), url); err != nil || len(body) != 50_001 || interfaces != "true true false true" {
		t.Error(len(body), err, interfaces)
	}
	if _, body, err := suite.Get(ctx, suite.HTTPClient(t), url+"/hijack"); err != nil || body != "hi" {
		t.Error(body, err)
	}
	if _, _, err := suite.Get(ctx, suite.HTTPClient(t), url+"/short"); err == nil {
		t.Error("a reply shorter than its Content-Length did not fail")
	}
	two := httptest.NewUnstartedServer(httphook.Handler(handler, p))
	two.EnableHTTP2 = true
	two.StartTLS()
	defer two.Close()
	client := &http.Client{Transport: httphook.Transport(two.Client().Transport)}
	if _, body, err := suite.Get(ctx, client, two.URL); err != nil || len(body) != 50_001 || interfaces != "true false true true" {
		t.Error(len(body), err, interfaces)
	}
}

func TestTwoHooksActOnce(t *testing.T) {
	p := suite.Process(t, "front")
	url := suite.HTTPServer(t, p, httphook.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}), p))
	base := &http.Transport{}
	httphook.InstallTransport(base)
	defer base.CloseIdleConnections()
	ctx, r := suite.Begin(t, faultloom.Options{})
	for _, c := range []*http.Client{{Transport: base}, {Transport: httphook.Transport(base)}} {
		resp, _, err := suite.Get(ctx, c, url)
		if err != nil || resp.Request.Header.Get("X-Faultloom") != "" {
			t.Fatal(err)
		}
	}
	if s := suite.End(t, r); len(s.Events) != 5 || s.Events[1].Child == nil || s.Events[3].Child == nil {
		t.Error(suite.FormatHistory(s))
	}
	if _, _, err := suite.Get(context.Background(), &http.Client{Transport: base}, url); err != nil {
		t.Error(err)
	}
}

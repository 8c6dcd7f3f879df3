package httphook_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/internal/suite"
	"faultloom.dev/go/message/hooks/httphook"
	"faultloom.dev/go/message/wire"
)

// setUpTime is how long a connection of slowClient takes at least.
const setUpTime = 60 * time.Millisecond

// slowClient has the transport of a test server, and takes its time to connect.
func slowClient(t *testing.T, s *httptest.Server) *http.Client {
	base := s.Client().Transport.(*http.Transport).Clone()
	base.DialContext = (&net.Dialer{Control: func(string, string, syscall.RawConn) error { time.Sleep(setUpTime); return nil }}).DialContext
	t.Cleanup(base.CloseIdleConnections)
	return &http.Client{Transport: httphook.Transport(base)}
}

// connectTimes returns the time for a connection of each call.
func connectTimes(s *wire.Segment) (times []time.Duration) {
	for _, e := range s.Events {
		if e.Kind == wire.RecvResponse || e.Kind == wire.CallFailed {
			times = append(times, time.Duration(e.ConnectUS)*time.Microsecond)
		}
	}
	return times
}

func TestTheFirstCallOnAConnectionHasTheTimeForIt(t *testing.T) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello")) })
	for _, protocol := range []string{"HTTP", "TLS", "HTTP/2"} {
		server := httptest.NewUnstartedServer(hello)
		server.EnableHTTP2 = protocol == "HTTP/2"
		if protocol == "HTTP" {
			server.Start()
		} else {
			server.StartTLS()
		}
		t.Cleanup(server.Close)
		client := slowClient(t, server)
		ctx, r := suite.Begin(t, faultloom.Options{})
		var connected int // counted by the program's own trace
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected++ }})
		for range 3 {
			if _, _, err := suite.Get(ctx, client, server.URL); err != nil {
				t.Fatal(protocol, err)
			}
		}
		times := connectTimes(suite.End(t, r))
		if len(times) != 3 || times[0] < setUpTime || times[0] > time.Minute || times[1] != 0 || times[2] != 0 {
			t.Error(protocol, times)
		}
		if connected != 3 {
			t.Errorf("%s: the program's trace was called %d times", protocol, connected)
		}
	}
}

func TestACallThatCannotConnectHasTheTimeForIt(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	ctx, r := suite.Begin(t, faultloom.Options{})
	short, cancel := context.WithTimeout(ctx, setUpTime/2)
	defer cancel()
	if _, _, err := suite.Get(short, slowClient(t, server), server.URL); err == nil {
		t.Fatal("connected")
	}
	segment := suite.End(t, r)
	times := connectTimes(segment)
	took := time.Duration(segment.Events[1].AtUS-segment.Events[0].AtUS) * time.Microsecond
	if segment.Events[1].Kind != wire.CallFailed || len(times) != 1 || times[0] < setUpTime/3 || times[0] > took {
		t.Error(times, took)
	}
}

// A request that waits for its own connection gets the one that another request has returned meanwhile.
func TestAConnectionOfAnotherCallTakesNoTime(t *testing.T) {
	connected, dialing, release := make(chan bool), make(chan bool), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			connected <- true
			<-dialing
		}
	}))
	defer server.Close()
	var dials atomic.Int32
	base := &http.Transport{DialContext: (&net.Dialer{Control: func(string, string, syscall.RawConn) error {
		if dials.Add(1) > 1 { // the second waits until it is not needed any more
			close(dialing)
			<-release
		}
		return nil
	}}).DialContext}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: httphook.Transport(base)}
	ctx, r := suite.Begin(t, faultloom.Options{})
	first := make(chan error)
	go func() {
		_, _, err := suite.Get(ctx, client, server.URL+"/first")
		first <- err
	}()
	<-connected
	if _, _, err := suite.Get(ctx, client, server.URL+"/second"); err != nil {
		t.Error(err)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
	close(release)
	times := connectTimes(suite.End(t, r))
	if len(times) != 2 || dials.Load() < 2 || (times[0] == 0) == (times[1] == 0) {
		t.Error(times, dials.Load())
	}
}

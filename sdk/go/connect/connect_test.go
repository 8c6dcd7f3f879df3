// Package connect tests RPCs over net/http: connect-go with its three protocols, and grpc-go's ServeHTTP. It is a
// module of its own, so that the SDK does not depend on connect-go.
package connect

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/internal/suite"
	"faultloom.dev/go/message/wire"
)

// app is the program in the folder app, built by the wrapper.
var app string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "faultloom-connect-")
	if err != nil {
		panic(err)
	}
	var output string
	if app, output, err = suite.BuildApp(dir, "app"); err != nil || output != "" {
		panic(fmt.Sprint(output, err))
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// services are two running programs: front calls back.
type services struct{ front, plain, tls string }

func start(t *testing.T, backEnvironment, frontEnvironment []string) services {
	t.Helper()
	plain, tls, _ := strings.Cut(suite.RunApp(t, app, backEnvironment), " ")
	peers := fmt.Sprintf("FAULTLOOM_PEERS=%s=back,%s=back", plain, tls)
	front, _, _ := strings.Cut(suite.RunApp(t, app, append(frontEnvironment, peers)), " ")
	return services{front, plain, tls}
}

func startTraced(t *testing.T) services {
	return start(t, suite.AppEnvironment("back"), suite.AppEnvironment("front"))
}

type outcome struct {
	Values   []string
	Code     string
	Trailers []string
}

// call makes front call back. It returns what front's callers got, and front's history.
func (s services) call(t *testing.T, plan []faultloom.Fault, form, protocol, kind, text string, times int) ([]outcome, *wire.Segment) {
	t.Helper()
	q := url.Values{"plain": {s.plain}, "tls": {s.tls}, "form": {form}, "protocol": {protocol}, "kind": {kind},
		"text": {text}, "times": {fmt.Sprint(times)}}
	ctx, r := suite.Begin(t, faultloom.Options{Plan: plan})
	_, body, err := suite.Get(ctx, suite.HTTPClient(t), "http://"+s.front+"/call?"+q.Encode())
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []outcome
	if err := json.Unmarshal([]byte(body), &outcomes); err != nil || len(outcomes) != times {
		t.Fatal(err, body)
	}
	return outcomes, suite.End(t, r).Events[1].Child
}

const service = "/faultloom.connect.v1.ShopService/"

// healthy is what callers get without faults.
var healthy = map[string]outcome{
	"Get":  {Values: []string{"got 2"}, Trailers: []string{"own"}},
	"List": {Values: []string{"item 0", "item 1", "item 2"}, Trailers: []string{"own"}},
	"Chat": {Values: []string{"256", "256", "256"}},
}

// ways are the protocols of connect-go and the forms of HTTP for each.
var ways = []struct{ protocol, form string }{
	{"connect", "1"}, {"connect", "h2c"}, {"connect", "tls"}, {"json", "1"}, {"get", "1"}, {"get", "tls"},
	{"grpc", "h2c"}, {"grpc", "tls"}, {"grpcweb", "1"}, {"grpcweb", "h2c"}, {"grpcweb", "tls"},
}

func eachWay(t *testing.T, test func(t *testing.T, protocol, form, kind string)) {
	for _, way := range ways {
		for _, kind := range []string{"Get", "List", "Chat"} {
			if kind == "Chat" && way.form == "1" || way.protocol == "get" && kind != "Get" {
				continue // needs HTTP/2; has no streams
			}
			t.Run(way.protocol+"/"+way.form+"/"+kind, func(t *testing.T) { test(t, way.protocol, way.form, kind) })
		}
	}
}

func method(protocol string) string {
	if protocol == "get" {
		return "GET "
	}
	return "POST "
}

func TestConnectReturnsHistoriesWithoutChangingMessages(t *testing.T) {
	s := startTraced(t)
	eachWay(t, func(t *testing.T, protocol, form, kind string) {
		// few calls, whose history fits into a header, and many
		for _, calls := range []int{2, 8} {
			text := fmt.Sprint(calls)
			outcomes, front := s.call(t, nil, form, protocol, kind, text, 2)
			want := healthy[kind]
			if kind == "Get" {
				want.Values = []string{"got " + text}
			}
			for _, got := range outcomes {
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%+v, want %+v", got, want)
				}
			}
			if kind == "Chat" {
				calls *= 3
			}
			for i := range 2 {
				send, reply := front.Events[2*i], front.Events[2*i+1]
				if send.Name != method(protocol)+service+kind || reply.Status != 200 || reply.Gap || reply.Child == nil {
					t.Fatal(suite.FormatHistory(front))
				}
				if back := reply.Child; back.Name != send.Name || back.Truncated || len(back.Events) != 2*calls+1 {
					t.Error(suite.FormatHistory(back))
				}
			}
		}
	})
}

func TestErrorsOfConnectArriveUnchanged(t *testing.T) {
	s := startTraced(t)
	eachWay(t, func(t *testing.T, protocol, form, kind string) {
		outcomes, front := s.call(t, nil, form, protocol, kind, "fail", 1)
		if outcomes[0].Code != "not_found" {
			t.Errorf("%+v", outcomes[0])
		}
		if reply := front.Events[1]; reply.Gap || reply.Child == nil {
			t.Error(suite.FormatHistory(front))
		}
	})
}

func TestProgramsWithoutTrustBehaveAsWithTheSDK(t *testing.T) {
	none := []string{"FAULTLOOM_TRUST="}
	s := start(t, none, none)
	back := start(t, none, suite.AppEnvironment("front"))
	eachWay(t, func(t *testing.T, protocol, form, kind string) {
		q := url.Values{"plain": {s.plain}, "tls": {s.tls}, "form": {form}, "protocol": {protocol}, "kind": {kind}, "text": {"2"}, "times": {"1"}}
		_, body, err := suite.Get(t.Context(), suite.HTTPClient(t), "http://"+s.front+"/call?"+q.Encode())
		var outcomes []outcome
		if err != nil || json.Unmarshal([]byte(body), &outcomes) != nil || !reflect.DeepEqual(outcomes, []outcome{healthy[kind]}) {
			t.Error(err, body)
		}
		// a callee without the SDK is a gap
		outcomes, front := back.call(t, nil, form, protocol, kind, "2", 1)
		if !reflect.DeepEqual(outcomes, []outcome{healthy[kind]}) || !front.Events[1].Gap {
			t.Errorf("%+v\n%s", outcomes, suite.FormatHistory(front))
		}
	})
}

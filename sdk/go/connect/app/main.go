// Command app serves a service of connect-go, one of grpc-go, and plain pages, over HTTP/1.1, HTTP/2 without TLS and
// HTTP/2 with TLS. It prints the addresses without and with TLS. A request of /call makes it call another such program.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const service = "/faultloom.connect.v1.ShopService/"

type message = wrapperspb.StringValue

// self is the address of this program's pages.
var self string

// work makes as many calls as the text says.
func work(ctx context.Context, text string) error {
	n, _ := strconv.Atoi(text)
	for range n {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+self+"/item", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		resp.Body.Close()
	}
	if text == "fail" {
		return connect.NewError(connect.CodeNotFound, errors.New("no such item"))
	}
	return nil
}

func handlers(mux *http.ServeMux) {
	mux.Handle(service+"Get", connect.NewUnaryHandler(service+"Get",
		func(ctx context.Context, r *connect.Request[message]) (*connect.Response[message], error) {
			if err := work(ctx, r.Msg.Value); err != nil {
				return nil, err
			}
			reply := connect.NewResponse(&message{Value: "got " + r.Msg.Value})
			reply.Trailer().Set("own", "trailer")
			return reply, nil
		}, connect.WithIdempotency(connect.IdempotencyNoSideEffects)))
	mux.Handle(service+"List", connect.NewServerStreamHandler(service+"List",
		func(ctx context.Context, r *connect.Request[message], s *connect.ServerStream[message]) error {
			s.ResponseTrailer().Set("own", "trailer")
			for n := range 3 {
				if err := s.Send(&message{Value: fmt.Sprint("item ", n)}); err != nil {
					return err
				}
			}
			return work(ctx, r.Msg.Value)
		}))
	mux.Handle(service+"Chat", connect.NewBidiStreamHandler(service+"Chat",
		func(ctx context.Context, s *connect.BidiStream[message, message]) error {
			for {
				m, err := s.Receive()
				if errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
				if err := work(ctx, m.Value); err != nil {
					return err
				}
				// a length in which a tail could begin
				if err := s.Send(&message{Value: strings.Repeat("x", 256)}); err != nil {
					return err
				}
			}
		}))
	grpcServer := grpc.NewServer()
	healthpb.RegisterHealthServer(grpcServer, health.NewServer())
	mux.Handle("/grpc.health.v1.Health/", grpcServer)
	mux.HandleFunc("/item", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) })
}

// client has a transport for one form of HTTP: "1", "h2c", "tls" (HTTP/2), "tls1".
func client(form string) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	switch form {
	case "1":
		transport.Protocols.SetHTTP1(true)
	case "h2c":
		transport.Protocols.SetUnencryptedHTTP2(true)
	case "tls":
		transport.Protocols.SetHTTP2(true)
		transport.TLSClientConfig = trust()
	case "tls1":
		transport.Protocols.SetHTTP1(true)
		transport.TLSClientConfig = trust()
	}
	return &http.Client{Transport: transport}
}

// trust trusts the certificate of every server of httptest.
func trust() *tls.Config {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
}

var protocols = map[string][]connect.ClientOption{
	"connect": nil,
	"json":    {connect.WithProtoJSON()},
	"get":     {connect.WithHTTPGet()},
	"grpc":    {connect.WithGRPC()},
	"grpcweb": {connect.WithGRPCWeb()},
}

// outcome is what a caller gets.
type outcome struct {
	Values   []string
	Code     string
	Trailers []string
}

func result(values []string, trailers http.Header, err error) outcome {
	out := outcome{Values: values}
	if err != nil {
		out.Code = err.Error()
		if code := connect.CodeOf(err); code != 0 {
			out.Code = code.String()
		}
	}
	for name := range trailers {
		if !strings.HasPrefix(strings.ToLower(name), "grpc-") {
			out.Trailers = append(out.Trailers, strings.ToLower(name))
		}
	}
	return out
}

func callUnary(ctx context.Context, c *connect.Client[message, message], text string) outcome {
	reply, err := c.CallUnary(ctx, connect.NewRequest(&message{Value: text}))
	if err != nil {
		return result(nil, nil, err)
	}
	return result([]string{reply.Msg.Value}, reply.Trailer(), nil)
}

func callList(ctx context.Context, c *connect.Client[message, message], text string) outcome {
	s, err := c.CallServerStream(ctx, connect.NewRequest(&message{Value: text}))
	if err != nil {
		return result(nil, nil, err)
	}
	defer s.Close()
	var values []string
	for s.Receive() {
		values = append(values, s.Msg().Value)
	}
	return result(values, s.ResponseTrailer(), s.Err())
}

// callChat sends the next message when it has the reply to the one before.
func callChat(ctx context.Context, c *connect.Client[message, message], text string) outcome {
	s := c.CallBidiStream(ctx)
	defer func() { s.CloseRequest(); s.CloseResponse() }()
	var values []string
	for range 3 {
		if err := s.Send(&message{Value: text}); err != nil && !errors.Is(err, io.EOF) {
			return result(values, nil, err)
		}
		m, err := s.Receive()
		if err != nil {
			return result(values, nil, err)
		}
		values = append(values, fmt.Sprint(len(m.Value)))
	}
	s.CloseRequest()
	_, err := s.Receive()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return result(values, s.ResponseTrailer(), err)
}

func callPage(ctx context.Context, c *http.Client, address string) outcome {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return result(nil, nil, err)
	}
	resp, err := c.Do(r)
	if err != nil {
		return outcome{Code: err.Error()}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return result([]string{strconv.Itoa(resp.StatusCode), string(body), resp.Proto}, resp.Trailer, err)
}

func callHealth(ctx context.Context, address string, isTLS bool) outcome {
	security := insecure.NewCredentials()
	if isTLS {
		security = credentials.NewTLS(trust())
	}
	cc, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(security))
	if err != nil {
		return result(nil, nil, err)
	}
	defer cc.Close()
	var trailer metadata.MD
	reply, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Trailer(&trailer))
	return result([]string{reply.GetStatus().String()}, http.Header(trailer), err)
}

// call serves /call?plain=ADDRESS&tls=ADDRESS&form=h2c&protocol=grpc&kind=Get&text=x&times=3.
func call(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	q := r.URL.Query()
	address := url.URL{Scheme: "http", Host: q.Get("plain")}
	isTLS := strings.HasPrefix(q.Get("form"), "tls")
	if isTLS {
		address = url.URL{Scheme: "https", Host: q.Get("tls")}
	}
	httpClient := client(q.Get("form"))
	defer httpClient.CloseIdleConnections()
	kind := q.Get("kind")
	rpc := connect.NewClient[message, message](httpClient, address.String()+service+kind, protocols[q.Get("protocol")]...)
	if q.Get("protocol") == "get" {
		rpc = connect.NewClient[message, message](httpClient, address.String()+service+kind, connect.WithHTTPGet(),
			connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	}
	times, _ := strconv.Atoi(q.Get("times"))
	outcomes := []outcome{}
	for range times {
		switch kind {
		case "Get":
			outcomes = append(outcomes, callUnary(ctx, rpc, q.Get("text")))
		case "List":
			outcomes = append(outcomes, callList(ctx, rpc, q.Get("text")))
		case "Chat":
			outcomes = append(outcomes, callChat(ctx, rpc, q.Get("text")))
		case "page":
			outcomes = append(outcomes, callPage(ctx, httpClient, address.String()+"/item"))
		case "health":
			outcomes = append(outcomes, callHealth(ctx, address.Host, isTLS))
		}
	}
	json.NewEncoder(w).Encode(outcomes)
}

func main() {
	mux := http.NewServeMux()
	handlers(mux)
	mux.HandleFunc("/call", call)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	self = l.Addr().String()
	secure := httptest.NewUnstartedServer(mux)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	fmt.Println(self, secure.Listener.Addr())
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	server := &http.Server{Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	server.Serve(l)
}

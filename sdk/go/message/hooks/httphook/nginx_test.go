package httphook_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/internal/suite"
)

const nginxConf = `daemon off;
master_process off;
pid %[1]s/pid;
error_log %[1]s/error.log;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	proxy_cache_path %[1]s/cache keys_zone=pages:1m;
	gzip on;
	gzip_min_length 1;
	gzip_types *;
	gzip_proxied any;
	proxy_http_version 1.1;
	proxy_cache pages;
	server {
		listen 127.0.0.1:%[2]s;
		add_header X-Cache $upstream_cache_status;
		location / { proxy_pass http://%[3]s; proxy_cache_valid 200 1m; }
		location /rude/ { proxy_pass http://%[3]s; proxy_cache_valid 200 1m; proxy_ignore_headers Cache-Control Vary; }
	}
}
`

// nginx starts a proxy before address and returns its base URL.
func nginx(t *testing.T, address string) string {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		t.Skip("skipped 1 test: nginx is not installed (Debian: apt-get install nginx)")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	dir := t.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, []byte(fmt.Sprintf(nginxConf, dir, port, address)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-p", dir, "-c", conf, "-e", filepath.Join(dir, "error.log"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill(); <-exited })
	suite.Eventually(t, "nginx listens", func() bool {
		select {
		case err := <-exited:
			exited <- err
			log, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Fatalf("nginx ended: %v\n%s", err, log)
		default:
		}
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "http://127.0.0.1:" + port
}

func TestBehindNginxWithGzipAndCache(t *testing.T) {
	body := strings.Repeat("a page of text. ", 500)
	fan := suite.Fan(t, 40, "")
	served := 0
	back := suite.HTTPServer(t, suite.Process(t, "front"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served++
		fan.ServeHTTP(httptest.NewRecorder(), r)
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, body)
	}))
	proxy := nginx(t, strings.TrimPrefix(back, "http://"))
	client := suite.HTTPClient(t)
	traced := func(path string) (cache string, complete bool) {
		t.Helper()
		ctx, r := suite.Begin(t, faultloom.Options{})
		resp, got, err := suite.Get(ctx, client, proxy+path)
		if err != nil || got != body {
			t.Fatalf("%s: %d bytes instead of %d: %v", path, len(got), len(body), err)
		}
		e := suite.End(t, r).Events[1]
		if e.Gap == (e.Child != nil) || (e.Child != nil && e.Child.Truncated) {
			t.Errorf("%s: %+v", path, e)
		}
		return resp.Header.Get("X-Cache"), e.Child != nil
	}
	plain := func(path string) (cache string) {
		t.Helper()
		resp, got, err := suite.Get(context.Background(), client, proxy+path)
		if err != nil || got != body || !resp.Uncompressed {
			t.Fatalf("%s: %d bytes instead of %d: %v", path, len(got), len(body), err)
		}
		return resp.Header.Get("X-Cache")
	}

	if cache, complete := traced("/a"); cache != "MISS" || !complete {
		t.Error("compressed on the way:", cache, complete)
	}
	if cache := plain("/a"); cache != "MISS" {
		t.Error("a reply with a history was cached:", cache)
	}
	if cache := plain("/a"); cache != "HIT" {
		t.Error("a plain reply was not cached:", cache)
	}
	if cache, complete := traced("/a"); cache == "HIT" && complete {
		t.Error("a cached reply has a history")
	}
	// a cache that ignores no-store returns the tail of another call
	if cache, complete := traced("/rude/b"); cache != "MISS" || !complete {
		t.Error(cache, complete)
	}
	if cache, complete := traced("/rude/b"); cache != "HIT" || complete {
		t.Error("another call's history:", cache, complete)
	}
	t.Logf("%d requests reached the server", served)
}

package wire

import (
	"net/http"
	"net/url"
	"strings"
)

// IsFramed reports whether a body consists of frames that a parser reads to its end: gRPC, gRPC-Web, and the streams of
// Connect. Such a body never has a tail.
func IsFramed(h http.Header) bool {
	kind := strings.ToLower(strings.TrimSpace(h.Get("Content-Type")))
	for _, prefix := range [...]string{"application/grpc", "application/connect+"} {
		if strings.HasPrefix(kind, prefix) {
			return true
		}
	}
	return false
}

// ProcedureName returns "POST /package.Service/Method" for a request that is an RPC of gRPC, gRPC-Web or Connect. The
// name of a service may look like an identifier, so it is not normalized; only a prefix before it is. ok is false for
// other requests.
func ProcedureName(method string, u *url.URL, h http.Header) (name string, ok bool) {
	path := u.EscapedPath()
	service := strings.LastIndexByte(path[:max(0, strings.LastIndexByte(path, '/'))], '/')
	if service < 0 {
		return "", false
	}
	isConnect := h.Get("Connect-Protocol-Version") != "" ||
		method == http.MethodGet && strings.Contains("&"+u.RawQuery+"&", "&connect=v1&")
	if !isConnect && !IsFramed(h) {
		return "", false
	}
	return TruncateString(NormalizeHTTPName(method+" "+path[:service])+path[service:], MaxNameBytes), true
}

// AcceptsTrailers reports whether the sender of a request reads the trailers of its reply.
func AcceptsTrailers(request http.Header) bool {
	for _, line := range request["Te"] {
		for _, coding := range strings.Split(line, ",") {
			if name, _, _ := strings.Cut(coding, ";"); strings.EqualFold(strings.TrimSpace(name), "trailers") {
				return true
			}
		}
	}
	return false
}

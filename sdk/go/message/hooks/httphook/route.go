package httphook

import (
	"net/http"
	"strings"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// The notations of route templates.
const (
	Pattern = 0   // "GET /cart/{user}", of ServeMux
	Braces  = '{' // "/cart/{user}"
	Colons  = ':' // "/cart/:user", "/files/*path"
)

// SetRoute names the call that a router serves with a request, by the template of the route that it has found. A
// template that does not name the request is ignored.
func SetRoute(r *http.Request, notation byte, template string) {
	s := scope.Current(r.Context())
	if s == nil || template == "" {
		return
	}
	switch notation {
	case Pattern:
		template = patternPath(template)
	case Colons:
		template = colonParameters(template)
	}
	path := r.URL.EscapedPath()
	served := s.ServedPath()
	// a prefix that was stripped before the router got the request
	prefix, ok := strings.CutSuffix(served, path)
	if !ok {
		return
	}
	if prefix != "" {
		template = strings.TrimPrefix(wire.NormalizeHTTPName(" "+prefix), " ") + template
	}
	if name, ok := wire.TemplateName(r.Method, served, template); ok {
		s.SetRoute(name)
	}
}

// callName returns the name of a call at its callee: by the template of its router, or the normalized path. ServeMux
// puts the template into the request, but a program may have given it a copy.
func callName(s *scope.Scope, r *http.Request) string {
	if name := s.Route(); name != "" {
		return name
	}
	if name, ok := wire.TemplateName(r.Method, s.ServedPath(), patternPath(r.Pattern)); ok {
		return name
	}
	return wire.NormalizeHTTPName(wire.RawHTTPName(r.Method, s.ServedPath()))
}

// patternPath returns the path of a pattern of ServeMux, which may begin with a method and a host.
func patternPath(pattern string) string {
	i := strings.IndexByte(pattern, '/')
	if i < 0 {
		return ""
	}
	return strings.TrimSuffix(pattern[i:], "{$}")
}

// colonParameters replaces ":id" by "{id}" and "*path" by "{*path}". A parameter ends with its part of the path.
func colonParameters(template string) string {
	parts := strings.Split(template, "/")
	for i, part := range parts {
		for at := 0; at < len(part); at++ {
			if part[at] == '\\' { // the next byte is text
				part = part[:at] + part[at+1:]
				continue
			}
			if part[at] == ':' {
				part = part[:at] + "{" + part[at+1:] + "}"
				break
			}
			if part[at] == '*' && at+1 < len(part) {
				part = part[:at] + "{" + part[at:] + "}"
				break
			}
		}
		parts[i] = part
	}
	return strings.Join(parts, "/")
}

package wire

import "strings"

// TemplateName returns "METHOD /cart/{user}", the name that a callee records for a request, by the template of its
// router. ok is false if the template does not name the request: it is empty, a wildcard alone, or does not cover the
// path, as that of a route for a prefix. path is the escaped path of the request.
func TemplateName(method, path, template string) (name string, ok bool) {
	raw := RawHTTPName("", path)[1:]
	template = plainTemplate(template)
	if template == "" || template == "/*" || (strings.HasPrefix(template, "/{*") && strings.IndexByte(template, '}') == len(template)-1) {
		return "", false
	}
	switch cut, slash := strings.CutSuffix(template, "/"); { // routers may ignore a slash at the end
	case slash && !strings.HasSuffix(raw, "/"):
		template = cut
	case !slash && strings.HasSuffix(raw, "/") && !isWildcard(template[strings.LastIndexByte(template, '/')+1:]):
		template += "/"
	}
	return TruncateString(method+" "+template, MaxNameBytes), covers(template, raw)
}

// covers reports whether a template covers a path: a part with a parameter stands for any part, and a wildcard at the
// end for any number of parts.
func covers(template, path string) bool {
	for {
		t, trest, tmore := strings.Cut(template, "/")
		p, prest, pmore := strings.Cut(path, "/")
		if !tmore && isWildcard(t) {
			return true
		}
		if tmore != pmore || (t != p && t != "*" && !strings.Contains(t, "{")) {
			return false
		}
		if !tmore {
			return true
		}
		template, path = trest, prest
	}
}

func isWildcard(part string) bool { return part == "*" || strings.HasPrefix(part, "{*") }

// plainTemplate returns a template in the one form that histories have: a parameter is "{id}", without a pattern or a
// mark, and a wildcard is "{*path}", or "*" if it has no name.
func plainTemplate(template string) string {
	if !strings.Contains(template, "{") {
		return template
	}
	var out strings.Builder
	for i := 0; i < len(template); i++ {
		if template[i] != '{' {
			out.WriteByte(template[i])
			continue
		}
		end := closingBrace(template, i)
		name, pattern, _ := strings.Cut(template[i+1:end], ":")
		i = end
		name, dots := strings.CutSuffix(strings.TrimSuffix(name, "?"), "...")
		name, star := strings.CutPrefix(name, "*")
		if dots || star || pattern == ".*" || pattern == ".+" {
			name = "*" + name
		}
		if name == "*" {
			out.WriteString(name)
		} else {
			out.WriteString("{" + name + "}")
		}
	}
	return out.String()
}

// closingBrace returns the position of the brace that closes the one at begin, or the end of the text. A pattern may
// have braces of its own.
func closingBrace(text string, begin int) int {
	depth := 0
	for i := begin; i < len(text); i++ {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

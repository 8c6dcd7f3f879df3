package wire

import "testing"

func TestTemplatesNameTheRequestsThatTheyCover(t *testing.T) {
	for _, c := range []struct{ template, path, name string }{
		{"/product/{id}", "/product/OLJ?x=1", "/product/{id}"},
		{"/product/{id:[0-9]{3}}", "/product/123", "/product/{id}"},
		{"/a/{x:[a/b]+}/c", "/a/b/c", "/a/{x}/c"},
		{"/a/{id?}", "/a/1", "/a/{id}"},
		{"/files/{name}.json", "/files/a.json", "/files/{name}.json"},
		{"/{from}-{to}", "/a-b", "/{from}-{to}"},
		{"/files/{path...}", "/files/a/b", "/files/{*path}"},
		{"/files/{path:.*}", "/files/a/b", "/files/{*path}"},
		{"/files/{*path}", "/files/", "/files/{*path}"},
		{"/files/*", "/files/a/b", "/files/*"},
		{"/a/*/c", "/a/b/c", "/a/*/c"},
		{"/a/{id}/", "/a/1", "/a/{id}"},
		{"/a/{id}", "/a/1/", "/a/{id}/"},
		{"/", "", "/"},
		// a prefix, another path, wildcards alone
		{"/static/", "/static/a", ""},
		{"/api", "/api/a", ""},
		{"/", "/a", ""},
		{"/b/{id}", "/a/1", ""},
		{"/*", "/a", ""},
		{"/{*path}", "/a/b", ""},
		{"/{path...}", "/a", ""},
		{"", "/a", ""},
		{"/a/{id", "/a/1", "/a/{id}"},
	} {
		name, ok := TemplateName("GET", c.path, c.template)
		if want := "GET " + c.name; ok != (c.name != "") || (ok && name != want) {
			t.Errorf("%s for %s: %q %v, want %q", c.template, c.path, name, ok, want)
		}
	}
}

package frontend

import (
	"embed"
	"html/template"
)

//go:embed templates/*.html
var files embed.FS

// templates has one template per page, parsed at start, named as the page's
// template method says.
var templates = template.Must(template.ParseFS(files, "templates/*.html"))

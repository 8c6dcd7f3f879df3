package frontend

import (
	"embed"
	"html/template"
)

//go:embed templates/*.html
var files embed.FS

// templates has one template per page, named by the page's template method.
var templates = template.Must(template.ParseFS(files, "templates/*.html"))

package frontend

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A builder returns the contents of a page, a struct with a template, or a
// redirect.
type builder func(*http.Request, visitor) (any, error)

// redirect sends a browser to another page. A JSON client gets the value.
type redirect struct {
	to    string
	value any
}

// statusError is an error page with its HTTP status.
type statusError struct {
	status int
	text   string // for the customer
	cause  error  // for the log; may be nil
}

func (e *statusError) Error() string {
	if e.cause != nil {
		return e.cause.Error()
	}
	return e.text
}

// essential returns the error page for the failure of a call that the page
// cannot do without. what names the missing part for the customer.
func essential(what string, err error) error {
	st := status.Convert(err)
	switch st.Code() {
	case codes.NotFound:
		return &statusError{status: http.StatusNotFound, text: "There is no such product."}
	case codes.InvalidArgument, codes.FailedPrecondition, codes.ResourceExhausted:
		return &statusError{status: http.StatusUnprocessableEntity, text: "That did not work: " + st.Message() + "."}
	}
	return &statusError{status: http.StatusServiceUnavailable,
		text: "Sorry, " + what + " cannot be reached at the moment.", cause: err}
}

// errorPage is shown instead of the requested page.
type errorPage struct {
	frame
	Status int    `json:"status"`
	Text   string `json:"error"`
}

func (*errorPage) template() string { return "error" }

// page returns a handler that replies with the page of build.
func (s *Server) page(build builder) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		asJSON := prefersJSON(r)
		page, err := build(r, visitorOf(w, r))
		if err != nil {
			s.fail(w, asJSON, r, err)
			return
		}
		if to, ok := page.(redirect); ok {
			if !asJSON {
				http.Redirect(w, r, to.to, http.StatusSeeOther)
				return
			}
			page = to.value
		}
		write(w, asJSON, http.StatusOK, page)
	})
}

// fail replies with the page of a statusError, or with a 500 for any other
// error.
func (s *Server) fail(w http.ResponseWriter, asJSON bool, r *http.Request, err error) {
	var page *statusError
	if !errors.As(err, &page) {
		page = &statusError{status: http.StatusInternalServerError,
			text: "Sorry, something went wrong.", cause: err}
	}
	if page.cause != nil {
		s.problems.Add(strconv.Itoa(page.status)+" "+r.Pattern, page.cause)
	}
	write(w, asJSON, page.status, &errorPage{
		frame:  frame{Title: http.StatusText(page.status)},
		Status: page.status,
		Text:   page.text,
	})
}

func prefersJSON(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") ||
		strings.HasPrefix(r.Header.Get("Accept"), "application/json")
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// write renders a page before it sends it, so that an error while rendering can
// still change the status.
func write(w http.ResponseWriter, asJSON bool, status int, page any) {
	buffer := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(buffer)
	buffer.Reset()
	kind := "text/html; charset=utf-8"
	var err error
	if asJSON {
		kind = "application/json"
		encoder := json.NewEncoder(buffer)
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(page)
	} else {
		err = templates.ExecuteTemplate(buffer, page.(interface{ template() string }).template(), page)
	}
	if err != nil {
		http.Error(w, "Sorry, something went wrong.", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", kind)
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(buffer.Len()))
	w.WriteHeader(status)
	w.Write(buffer.Bytes())
}

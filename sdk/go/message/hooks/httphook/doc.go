// Package httphook interposes at net/http, on both sides: as an http.Handler and an http.RoundTripper, or, in a program
// built with faultloom-go, inside net/http itself.
//
// Requests carry the envelope in a header. Replies bring the history back in a header if it is small, else in a tail
// behind the body, if the reply is one that may have a tail; the client cuts it off again while it streams.
// What the program sees is as without us, except for cache-control and vary of replies that carried a history.
package httphook

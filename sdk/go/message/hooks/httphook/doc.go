// Package httphook traces HTTP requests in net/http, on both sides: as an http.Handler and an http.RoundTripper, or, in
// a program built with faultloom-go, inside net/http itself.
//
// Requests carry the envelope in a header. Replies carry a small history in a header, and a larger one in a tail after
// the body if the reply may have a tail. The client removes both; it removes the tail while the body streams. The
// program gets the same replies as without the SDK, except for cache-control and vary of replies that carried a
// history.
package httphook

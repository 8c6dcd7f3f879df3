package httphook

import (
	"net/http"
	"testing"
)

func TestAnAnnouncementOnARedirectCountsForNothing(t *testing.T) {
	for status, want := range map[int]bool{200: true, 201: false, 302: false, 304: false, 404: true, 500: true} {
		reply := &http.Response{StatusCode: status, Header: http.Header{"X-Faultloom-Reply": {"tail"}}}
		if tail := removeHeaders(reply, &callRecorder{}); (tail == "tail") != want || len(reply.Header) > 0 {
			t.Errorf("status %d: tail %v, headers left: %v", status, tail, reply.Header)
		}
	}
}

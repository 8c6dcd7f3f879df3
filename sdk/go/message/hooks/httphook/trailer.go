package httphook

import (
	"io"
	"net/http"
)

// readTrailer makes the reply record its history when its trailers have come.
func readTrailer(resp *http.Response, rec *callRecorder) {
	rec.scope.ReplyStarted(rec.number, rec.status)
	resp.Body = &trailerReader{resp.Body, resp, rec}
}

// trailerReader passes a body on as it arrives: the program may answer each of its frames.
type trailerReader struct {
	io.ReadCloser
	resp     *http.Response
	recorder *callRecorder
}

func (t *trailerReader) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err == io.EOF {
		t.recorder.record(takeHistory(t.resp.Trailer))
	} else if err != nil {
		t.recorder.record(nil)
	}
	return n, err
}

// Close records a gap if the program did not read the body to its end.
func (t *trailerReader) Close() error {
	t.recorder.record(nil)
	return t.ReadCloser.Close()
}

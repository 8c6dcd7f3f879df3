package httphook

import (
	"encoding/binary"
	"io"
	"net/http"
	"time"

	"faultloom.dev/go/message/hooks/faults"
	"faultloom.dev/go/message/wire"
)

// Frames of gRPC, gRPC-Web and Connect: u8 flags, u32 BE length of the message, message.
const (
	frameHead       = 5
	compressedFlag  = 0x01
	connectEndFlag  = 0x02
	webTrailersFlag = 0x80
)

// maxRest bounds how long closing a corrupt reply takes, which may be an endless stream.
const maxRest = 2 * time.Second

// frameReader alters each message of a reply, and leaves the frames that end it as they are. A message is passed on as
// soon as it is complete, because the program may answer it.
type frameReader struct {
	body  io.ReadCloser
	empty bool // else corrupt
	ready []byte
	// bytes of a frame that are passed on as they arrive, after ready
	unaltered int64
	rest      time.Duration // how long Close reads
}

// Close reads the rest of the reply for its history: a client closes a body with a message that it cannot decode.
func (f *frameReader) Close() error {
	if f.rest > 0 {
		stop := time.AfterFunc(f.rest, func() { f.body.Close() })
		io.CopyN(io.Discard, f.body, maxDrain)
		stop.Stop()
	}
	return f.body.Close()
}

func (f *frameReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(f.ready) == 0 {
		if f.unaltered > 0 {
			n, err := f.body.Read(p[:min(int64(len(p)), f.unaltered)])
			f.unaltered -= int64(n)
			return n, err
		}
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.ready)
	f.ready = f.ready[n:]
	return n, nil
}

// next reads a frame and alters it. A frame that is incomplete or too large is passed on as it is.
func (f *frameReader) next() error {
	frame := make([]byte, frameHead)
	if n, err := io.ReadFull(f.body, frame); err != nil {
		f.ready = frame[:n]
		if n > 0 {
			return nil // the next read returns the error
		}
		return err
	}
	size := binary.BigEndian.Uint32(frame[1:])
	if frame[0]&(connectEndFlag|webTrailersFlag) != 0 || size > maxAltered {
		f.ready, f.unaltered = frame, int64(size)
		return nil
	}
	message := make([]byte, size)
	n, err := io.ReadFull(f.body, message)
	if err != nil {
		f.ready = append(frame, message[:n]...)
		return nil
	}
	if f.empty {
		f.ready = []byte{frame[0] &^ compressedFlag, 0, 0, 0, 0}
		return nil
	}
	wire.CorruptBody(message)
	f.ready = append(frame, message...)
	return nil
}

// alterFrames applies a fault to a reply that consists of frames. Where both sides may still send, it does not wait for
// the end of the reply.
func alterFrames(r *http.Request, resp *http.Response, outcome faults.Outcome) {
	switch {
	case outcome == faults.Empty:
		resp.Body = &frameReader{body: resp.Body, empty: true}
	case outcome == faults.Corrupt && r.ContentLength < 0:
		resp.Body = &frameReader{body: resp.Body}
	case outcome == faults.Corrupt:
		resp.Body = &frameReader{body: resp.Body, rest: maxRest}
	case outcome == faults.Reset && r.ContentLength < 0: // the client sends a stream
		resp.Body.Close()
	case outcome == faults.Reset:
		drain(resp)
	}
}

package httphook

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/trust"
	"faultloom.dev/go/message/wire"
)

// FuzzTail compares tailReader with wire.CutTail, for different sizes of reads.
func FuzzTail(f *testing.F) {
	history := append(wire.AppendPrefix(wire.AppendHead(nil, wire.Version, 42), 0, "svc", "", 7), wire.SendResponse, 0, 0)
	f.Add(wire.AppendTail([]byte("body"), history), uint8(3), uint8(5))
	f.Add(wire.AppendTail(bytes.Repeat([]byte{1, 0}, 30), history), uint8(1), uint8(1))
	history[0] = wire.Version2
	f.Add(wire.AppendTail(bytes.Repeat([]byte{2, 0, 1}, 30), history), uint8(1), uint8(1))
	f.Add([]byte("\x01 no tail at all flm\x01"), uint8(7), uint8(2))
	settings, err := trust.ParseSettings("environment demo")
	if err != nil {
		f.Fatal(err)
	}
	process := &scope.Process{Service: "s", Receiver: trust.NewReceiver(settings)}
	f.Fuzz(func(t *testing.T, whole []byte, in, out uint8) {
		want, _ := wire.CutTail(whole)
		// the reader checks only positions where a tail could begin, so bytes that only end like a tail may stay in the
		// body
		s := process.NewScope(&wire.Envelope{}, time.Now())
		c, _ := s.BeginCall(0, scope.Call{HTTP: true, Peer: "p", Name: "GET /"})
		var source io.Reader = bytes.NewReader(whole)
		switch in % 3 {
		case 0:
			source = iotest.OneByteReader(source)
		case 1:
			source = iotest.DataErrReader(source)
		}
		r := newTailReader(io.NopCloser(source), &callRecorder{scope: s, number: c.Number, status: 200})
		var got []byte
		buf := make([]byte, int(out)+1)
		for {
			n, err := r.Read(buf)
			got = append(got, buf[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		tail := whole[len(want):]
		begins := len(tail) > 0 && indexVersion(tail) == 0 && mayBeTail(tail)
		if !bytes.Equal(got, want) && (begins || !bytes.Equal(got, whole)) {
			t.Errorf("%x: got %x, want %x", whole, got, want)
		}
	})
}

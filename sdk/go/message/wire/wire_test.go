package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// seeded prints the seed of a random test, which repeats it.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestFieldLayoutMatchesTheDiagram(t *testing.T) {
	if tag := binary.AppendUvarint(nil, FieldNumber<<3|2); string(tag) != fieldTag {
		t.Errorf("tag is %x", tag)
	}
	history := []byte("history")
	got := AppendField([]byte("message"), history)
	want := "message" + fieldTag + "\x0f" + "history" + "\x00\x00\x00\x15" + "flm\x01"
	if string(got) != want || FieldLength(len(history)) != 0x15 {
		t.Errorf("%q", got)
	}
	message, back := CutField(got)
	if string(message) != "message" || string(back) != "history" {
		t.Errorf("%q %q", message, back)
	}
}

func randomText(r *rand.Rand, min, max int) string {
	b := make([]byte, min+r.IntN(max-min+1))
	for i := range b {
		b[i] = "abcdefghij/ .-0123"[r.IntN(18)]
	}
	return string(b)
}

func randomPlan(r *rand.Rand) []Fault {
	selector := func() Selector {
		return Selector{Caller: randomText(r, 0, 3), Callee: randomText(r, 0, 3), Call: randomText(r, 0, 3)}
	}
	plan := make([]Fault, 1+r.IntN(5))
	for i := range plan {
		f := &plan[i]
		*f = Fault{Kind: Kind(1 + r.IntN(9)), Selector: selector(), Arg: r.Uint64() >> r.IntN(65), Nth: uint64(r.IntN(3)), MaxFires: uint64(r.IntN(300)), AfterSent: r.IntN(2) == 0}
		for j := r.IntN(4); j > 0; j-- {
			f.After = append(f.After, After{selector(), 1 + uint64(r.IntN(300))})
		}
	}
	return plan
}

func decode(raw string) (*Envelope, error) {
	e := new(Envelope)
	o, err := DecodeEnvelope(raw, e)
	if err == nil {
		err = o.DecodeVerified(e)
	}
	return e, err
}

func TestEnvelopesSurviveARoundTrip(t *testing.T) {
	r := seeded(t)
	for i := 0; i < 150; i++ {
		want := Signed{History: r.IntN(2) == 0, Expires: r.Uint32(), KeyID: randomText(r, 1, 32), Environment: randomText(r, 1, 64), Plan: randomPlan(r)}
		want.Trace[3], want.Bridge = 7, r.IntN(2) == 0
		if want.HasRun = r.IntN(2) == 0; want.HasRun {
			want.Run[15] = byte(r.IntN(2)) // a run id of zeros is valid
		}
		part, err := AppendSignedPart(nil, &want)
		if err != nil {
			t.Fatal(err)
		}
		evidence := make([]uint64, CounterCount(want.Plan))
		for j := range evidence {
			evidence[j] = r.Uint64() >> r.IntN(65)
		}
		raw, err := AssembleEnvelope(string(AppendSignedPrefix(nil, part, make([]byte, 16))), 77, AcceptTail, 123, evidence)
		if err != nil {
			t.Fatal(err)
		}
		e, err := decode(raw)
		if err != nil || !reflect.DeepEqual(e.Signed, want) || e.Call != 77 || e.ReceiveLimit != 123 || fmt.Sprint(e.Evidence) != fmt.Sprint(evidence) {
			t.Fatalf("%+v\n%+v\n%v", e, want, err)
		}
		for n := 0; n < len(raw); n++ { // every prefix is refused, and none crashes the decoder
			if _, err := decode(raw[:n]); err == nil {
				t.Fatalf("%d of %d bytes were accepted", n, len(raw))
			}
		}
	}
}

func TestRunIsOptionalAndUnknownPermissionsAreMalformed(t *testing.T) {
	signed := Signed{History: true, KeyID: "k", Environment: "e"}
	without, _ := AppendSignedPart(nil, &signed)
	signed.HasRun = true
	with, _ := AppendSignedPart(nil, &signed)
	if without[0] != 1 || with[0] != 5 || len(with) != len(without)+16 {
		t.Errorf("%x %x", without, with)
	}
	for permissions := 0; permissions < 256; permissions++ {
		part := append([]byte{byte(permissions)}, with[1:]...)
		if permissions&permitRun == 0 {
			part = append([]byte{byte(permissions)}, without[1:]...)
		}
		_, err := DecodeEnvelope(string(AppendSignedPrefix(nil, part, make([]byte, 16))), new(Envelope))
		if valid := permissions < 16; valid != (err == nil) {
			t.Errorf("permissions %08b: %v", permissions, err)
		}
	}
}

func TestTooLargeEnvelopeIsRefused(t *testing.T) {
	if _, err := AssembleEnvelope(strings.Repeat("x", MaxEnvelopeBytes-9), 1, 0, 0, nil); err != EnvelopeTooLarge {
		t.Error(err)
	}
	if _, err := AssembleEnvelope(strings.Repeat("x", MaxEnvelopeBytes-10), 1, 0, 0, nil); err != nil {
		t.Error(err)
	}
}

// randomSegment returns a random encoded segment.
func randomSegment(r *rand.Rand, depth int) []byte {
	b := AppendPrefix(nil, byte(r.IntN(4)), randomText(r, 1, 20), randomText(r, 0, 30), r.Uint64()>>20)
	var open []uint64
	calls, table := uint64(0), 0
	ref := func() {
		if table > 0 && r.IntN(2) == 0 {
			b = AppendVarint(b, uint64(1+r.IntN(table)))
			return
		}
		table++
		b = AppendString(append(b, 0), randomText(r, 1, 40))
	}
	for n := r.IntN(12); n > 0; n-- {
		if len(open) == 0 || r.IntN(2) == 0 {
			tag := byte(SendRequest | r.IntN(4)<<3)
			b = AppendVarint(append(b, tag), uint64(r.IntN(1000)))
			ref()
			ref()
			if tag&TagFault != 0 {
				b = AppendVarint(b, uint64(r.IntN(64)))
			}
			calls++
			open = append(open, calls)
			continue
		}
		tag := byte(RecvResponse + r.IntN(2))
		if depth > 0 && r.IntN(2) == 0 {
			tag |= TagChild
		}
		i := r.IntN(len(open))
		b = AppendVarint(AppendVarint(AppendVarint(append(b, tag), uint64(r.IntN(1000))), open[i]), 14)
		open = append(open[:i], open[i+1:]...)
		if tag&TagChild != 0 {
			child := randomSegment(r, depth-1)
			b = append(AppendVarint(b, uint64(len(child))), child...)
		}
	}
	if r.IntN(5) > 0 {
		b = AppendVarint(AppendVarint(append(b, SendResponse), uint64(r.IntN(1000))), 200)
	}
	return b
}

func TestTruncatedHistoriesFitAndCanBeRead(t *testing.T) {
	r := seeded(t)
	for i := 0; i < 150; i++ {
		whole := append(AppendHead(nil, Version, 5), randomSegment(r, 3)...)
		h, err := DecodeHistory(whole)
		if err != nil {
			t.Fatalf("%x: %v", whole, err)
		}
		last := -1
		for limit := 0; limit <= len(whole); limit++ {
			cut, err := TruncateHistory(whole, limit)
			if err != nil {
				t.Fatal(err)
			}
			if cut == nil {
				if last >= 0 {
					t.Fatalf("%x fits %d bytes but not %d", whole, limit-1, limit)
				}
				continue
			}
			got, err := DecodeHistory(cut)
			if err != nil || len(cut) > limit || len(cut) < last {
				t.Fatalf("%x cut to %d: %d bytes, %v", whole, limit, len(cut), err)
			}
			last = len(cut)
			if limit < len(whole) && !got.Segment.Truncated {
				t.Fatal("not marked")
			}
			if n := len(h.Segment.Events); n > 0 && h.Segment.Events[n-1].Kind == SendResponse {
				end := got.Segment.Events[len(got.Segment.Events)-1]
				if end.Kind != SendResponse || end.AtUS != h.Segment.Events[n-1].AtUS {
					t.Fatalf("the answer moved: %+v", end)
				}
			}
		}
	}
}

func TestNamesAreTruncatedAtCharacters(t *testing.T) {
	for i := 0; i < 5; i++ {
		s := strings.Repeat("x", i) + strings.Repeat("€", 80)
		if got := NormalizeHTTPName("GET /" + s); len(got) > MaxNameBytes || len(got) < MaxNameBytes-2 || strings.Contains(got, "\ufffd") {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
}

func FuzzEnvelope(f *testing.F) {
	part, _ := AppendSignedPart(nil, &Signed{History: true, KeyID: "k", Environment: "e", Plan: []Fault{{Kind: Delay, Arg: 5, Nth: 2, After: []After{{Selector{Call: "x"}, 3}}}}})
	raw, _ := AssembleEnvelope(string(AppendSignedPrefix(nil, part, make([]byte, 16))), 1, AcceptField, 4<<20, []uint64{1, 2})
	f.Add([]byte(raw))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decode(string(b))
		if err != nil {
			return
		}
		again, err := AssembleEnvelope(e.SignedPrefix, e.Call, e.Accept, e.ReceiveLimit, e.Evidence)
		if err != nil || len(again) > len(b) {
			t.Errorf("%x became %x, %v", b, again, err)
		}
		if e2, err := decode(again); err != nil || !reflect.DeepEqual(e, e2) {
			t.Errorf("%+v %+v %v", e, e2, err)
		}
	})
}

func FuzzHistory(f *testing.F) {
	for seed := uint64(0); seed < 10; seed++ {
		f.Add(append(AppendHead(nil, Version, 5), randomSegment(rand.New(rand.NewPCG(seed, 0)), 3)...), uint16(60))
	}
	f.Fuzz(func(t *testing.T, b []byte, limit uint16) {
		_, err := DecodeHistory(b)
		cut, cutErr := TruncateHistory(b, int(limit))
		if err == nil && (cutErr != nil || len(cut) > int(limit)) {
			t.Errorf("a good history cannot be cut: %v", cutErr)
		}
		if err == nil && cut != nil {
			if _, err := DecodeHistory(cut); err != nil {
				t.Errorf("%x cut to %d is %x: %v", b, limit, cut, err)
			}
		}
	})
}

func FuzzCarriers(f *testing.F) {
	f.Add(AppendField([]byte("m"), []byte("h")))
	f.Add(AppendTail([]byte("m"), []byte("h")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if message, history := CutField(b); history != nil {
			// a length may be encoded in more bytes than needed, so compare the decoded values
			m2, h2 := CutField(AppendField(append([]byte(nil), message...), history))
			if !bytes.Equal(m2, message) || !bytes.Equal(h2, history) {
				t.Errorf("%x", b)
			}
		} else if !bytes.Equal(message, b) {
			t.Errorf("%x", b)
		}
		if body, history := CutTail(b); history != nil && !bytes.Equal(AppendTail(append([]byte(nil), body...), history), b) {
			t.Errorf("%x", b)
		}
	})
}

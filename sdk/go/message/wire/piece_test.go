package wire

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// pieces splits a history between events, at random.
func pieces(r *rand.Rand, history []byte, limit int) (list [][]byte) {
	_, segment, _ := SplitHistory(history)
	rest := reader{rest: string(segment)}
	decodePrefix(&rest)
	events, _ := splitEvents(rest.rest)
	sent := 0
	end := len(history) - len(rest.rest)
	for i := range events[:len(events)-1] {
		if r.IntN(3) == 0 {
			list = append(list, append(AppendPieceHead(nil, 0, Version, sent), history[sent:end]...))
			sent = end
		}
		end += len(events[i].all)
	}
	var head []byte
	if sent == 0 {
		head = history[:len(history)-len(rest.rest)]
	}
	if last := EncodeLastPiece(Version, sent, head, history[sent+len(head):], false, limit); last != nil {
		list = append(list, last)
	}
	return list
}

func TestPiecesJoinToTheOriginalHistory(t *testing.T) {
	r := seeded(t)
	for i := 0; i < 300; i++ {
		history := append(AppendHead(nil, Version, 5), randomSegment(r, 2)...)
		if h, err := DecodeHistory(history); err != nil || len(h.Segment.Events) == 0 || h.Segment.Events[len(h.Segment.Events)-1].Kind != SendResponse {
			continue
		}
		list := pieces(r, history, 1<<20)
		for lost := 0; lost <= len(list); lost++ { // lost: the first piece that does not arrive
			var j PieceJoiner
			for n, p := range list {
				if n != lost {
					j.Add(p)
				}
			}
			got := j.History(5)
			switch {
			case lost == len(list):
				if !j.IsComplete() || !bytes.Equal(got, history) || j.History(6) != nil {
					t.Fatalf("%x became %x", history, got)
				}
			case lost == 0:
				if got != nil {
					t.Fatalf("%x without a head", got)
				}
			default:
				h, err := DecodeHistory(got)
				if err != nil || !h.Segment.Truncated || j.IsComplete() || !bytes.HasPrefix(history[HistoryHeadBytes+1:], got[HistoryHeadBytes+1:]) {
					t.Fatalf("%x became %x, %v", history, got, err)
				}
			}
		}
		// and with a trailer that is too small
		limit := r.IntN(80)
		var j PieceJoiner
		short := pieces(r, history, limit) // the last may be missing
		for _, p := range short {
			j.Add(p)
		}
		if last := short[max(0, len(short)-1):]; len(last) > 0 && last[0][1]&PieceLast != 0 && len(last[0]) > limit {
			t.Fatalf("%d bytes, limit %d", len(last[0]), limit)
		}
		if got := j.History(5); got != nil {
			if _, err := DecodeHistory(got); err != nil {
				t.Fatalf("%x cut to %x", history, got)
			}
		}
	}
}

func FuzzJoiner(f *testing.F) {
	f.Add(uint64(3), []byte{PieceVersion, 1, 0, 1})
	f.Fuzz(func(t *testing.T, seed uint64, stray []byte) {
		r := rand.New(rand.NewPCG(seed, 0))
		var j PieceJoiner
		for _, p := range pieces(r, append(append(AppendHead(nil, Version, 5), randomSegment(r, 2)...), SendResponse, 0, 0), 100) {
			if r.IntN(4) == 0 {
				j.Add(stray)
			}
			j.Add(p)
		}
		if h := j.History(5); h != nil {
			if _, segment, err := SplitHistory(h); err != nil || len(segment) == 0 {
				t.Errorf("%x", h)
			}
		}
	})
}

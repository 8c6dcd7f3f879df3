package scope

import "faultloom.dev/go/message/wire"

// evidence holds the counters that a plan's conditions are evaluated on (3MileBeach §4.3). They only count what is
// causally known here: what the caller knew when it sent the request, and what the histories of replies have added
// since.
type evidence struct {
	plan       []wire.Fault
	counters   []counters
	hopScratch []uint64 // reused by hopCounters
	// hasConditions is whether any fault depends on what was counted, so that histories must be read
	hasConditions bool
}

type counters struct {
	matched, fired uint64
	after          []uint64
}

func newEvidence(plan []wire.Fault, hop []uint64) *evidence {
	e := &evidence{plan: plan, counters: make([]counters, len(plan)), hopScratch: make([]uint64, 0, len(hop))}
	next := func() uint64 {
		if len(hop) == 0 {
			return 0
		}
		v := hop[0]
		hop = hop[1:]
		return v
	}
	for i := range plan {
		c := &e.counters[i]
		if plan[i].Nth != 0 {
			c.matched = next()
		}
		if plan[i].MaxFires != 0 {
			c.fired = next()
		}
		e.hasConditions = e.hasConditions || plan[i].Nth != 0 || plan[i].MaxFires != 0 || len(plan[i].After) > 0
		c.after = make([]uint64, len(plan[i].After))
		for j := range c.after {
			c.after[j] = next()
		}
	}
	return e
}

// hopCounters returns the counters in the order of the format. The slice is valid until the next call.
func (e *evidence) hopCounters() []uint64 {
	if e == nil {
		return nil
	}
	out := e.hopScratch[:0]
	for i := range e.plan {
		c := &e.counters[i]
		if e.plan[i].Nth != 0 {
			out = append(out, c.matched)
		}
		if e.plan[i].MaxFires != 0 {
			out = append(out, c.fired)
		}
		out = append(out, c.after...)
	}
	e.hopScratch = out
	return out
}

// decideFault counts a send and returns the index of the fault that fires at it, or -1.
func (e *evidence) decideFault(caller, peer, name string, enabled bool) int {
	chosen := -1
	for i := range e.plan {
		f, c := &e.plan[i], &e.counters[i]
		if !f.Selector.Matches(caller, peer, name) {
			continue
		}
		c.matched++
		if enabled && chosen < 0 && c.isReady(f) {
			c.fired++
			chosen = i
		}
	}
	return chosen
}

func (c *counters) isReady(f *wire.Fault) bool {
	for j := range f.After {
		if c.after[j] < f.After[j].Times {
			return false
		}
	}
	return (f.Nth == 0 || f.Nth == c.matched) && (f.MaxFires == 0 || c.fired < f.MaxFires)
}

// countPrerequisites counts a call for the prerequisites of faults that count sent calls, or of those that count
// completed calls.
func (e *evidence) countPrerequisites(sent bool, caller, peer, name string) {
	for i := range e.plan {
		f := &e.plan[i]
		if f.AfterSent != sent {
			continue
		}
		for j := range f.After {
			if f.After[j].Matches(caller, peer, name) {
				e.counters[i].after[j]++
			}
		}
	}
}

// addHistory counts the calls in the history that a reply brought.
func (e *evidence) addHistory(s *wire.Segment) {
	var sent []*wire.Event
	for i := range s.Events {
		ev := &s.Events[i]
		switch ev.Kind {
		case wire.SendRequest:
			sent = append(sent, ev)
			for j := range e.plan {
				if e.plan[j].Selector.Matches(s.Service, ev.Peer, ev.Name) {
					e.counters[j].matched++
				}
			}
			e.countPrerequisites(true, s.Service, ev.Peer, ev.Name)
			if ev.Fault >= 0 && ev.Fault < len(e.counters) {
				e.counters[ev.Fault].fired++
			}
		case wire.RecvResponse:
			call := sent[ev.Call-1]
			e.countPrerequisites(false, s.Service, call.Peer, call.Name)
		}
		if ev.Child != nil {
			e.addHistory(ev.Child)
		}
	}
}

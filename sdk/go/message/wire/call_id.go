package wire

// DeriveCallID returns the id of the number-th call (from 1) sent by the scope of the call parent. Derived ids take no
// space in a history, are unique per call, and are the same in every repetition from one root id. An id is never 0.
func DeriveCallID(parent, number uint64) uint64 {
	z := parent + number*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	z ^= z >> 31
	if z == 0 {
		return 1
	}
	return z
}

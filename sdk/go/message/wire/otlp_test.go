package wire

import "testing"

func TestTimesSaturate(t *testing.T) {
	if a, b := nanoseconds(1<<63, 1<<63), nanoseconds(1<<62, 0); a != "18446744073709551615" || b != a || nanoseconds(2, 3) != "5000" {
		t.Error(a, b)
	}
}

package wire

// Error is one of the stable codes of spec/errors.json.
type Error string

func (e Error) Error() string { return "faultloom: " + string(e) }

// Why an envelope is refused, in the order of the checks; EnvelopeTooLarge is an error of the sender.
const (
	Oversized          Error = "oversized"
	Malformed          Error = "malformed"
	UnsupportedVersion Error = "unsupported_version"
	Unsigned           Error = "unsigned"
	UnknownKey         Error = "unknown_key"
	BadSignature       Error = "bad_signature"
	WrongEnvironment   Error = "wrong_environment"
	Expired            Error = "expired"
	ExpiryTooFar       Error = "expiry_too_far"
	PlanNotPermitted   Error = "plan_not_permitted"
	TooManyFaults      Error = "too_many_faults"
	UnknownFault       Error = "unknown_fault"
	Replayed           Error = "replayed"
	EnvelopeTooLarge   Error = "envelope_too_large"
)

// Package grpchook interposes at the serialization of gRPC calls, on both sides, without a change to the program:
// grpc-go keeps process-wide lists of server options and of dial options per target, in a package of its own; a linkname
// reaches them (Go's linkname lock covers the standard library only). They exist since grpc-go 1.66.
//
// The server hook becomes the outermost of the chained interceptors, the client hook the innermost one. Requests carry
// the envelope in metadata. OK replies carry the history in a field appended to the serialized message; a codec registered
// in the place of "proto" appends and cuts it, and it does so only for messages wrapped by the hooks, so that every other
// message passes it untouched. Where the codec is somebody else's (another content subtype, ForceCodec, a later
// registration), only the trailer is used.
//
// The history of a stream comes in pieces, one with each reply message that has something new to tell, the rest in the
// trailer.
//
// User messages are never changed.
package grpchook

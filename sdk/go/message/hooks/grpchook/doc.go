// Package grpchook traces gRPC calls where they are serialized, on both sides, without a change to the program. grpc-go
// keeps lists of server options for the process and of dial options per target in an internal package; a linkname
// reaches them (Go's linkname lock covers the standard library only). They exist since grpc-go 1.66.
//
// The server hook becomes the outermost of the chained interceptors, the client hook the innermost one. Requests carry
// the envelope in metadata, or in an appended field (envelope_field.go). OK replies carry the history in a field
// appended to the serialized message. A codec registered as "proto" appends and removes the fields; it changes only
// messages that the hooks have wrapped. Where the codec is the program's own (another content subtype, ForceCodec, a
// later registration), only the trailer is used.
//
// The history of a stream comes in pieces: one with each reply message for which there is something new, the rest in
// the trailer.
//
// The program's messages are never changed.
package grpchook

// Package wire encodes and decodes the message format: envelopes of requests, histories of replies, and their carriers.
// docs/formats/messages.md specifies it, and spec/vectors tests it.
//
// Everything here is a pure function of its arguments: no clock, no environment, no network, no keys. Decoders take a
// string, because they retain parts of it (names, the signed prefix), and slicing a string needs no copy. A decoder
// never trusts a length.
package wire

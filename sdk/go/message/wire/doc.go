// Package wire reads and writes the message format: envelopes of requests, histories of replies, and the carriers both
// ride on. docs/formats/messages.md is the contract and spec/vectors proves it.
//
// Everything here is a pure function of its arguments: no clock, no environment, no network, no keys. Readers take a
// string, because parts of it are kept (names, the signed part that is passed on) and a string can be cut without copying.
// A reader never trusts a length.
package wire

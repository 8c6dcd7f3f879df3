/**
 * Reads and writes the message format: envelopes of requests, histories of replies, and the carriers both ride on.
 * {@code docs/formats/messages.md} is the contract and {@code spec/vectors} proves it.
 *
 * <p>Everything here is a pure function of its arguments: no clock, no environment, no network, no keys. Unsigned 64-bit
 * numbers of the format are {@code long}s whose bits are meant, call ids among them. A reader never trusts a length, and
 * throws nothing but {@link dev.faultloom.wire.WireError}.
 */
package dev.faultloom.wire;

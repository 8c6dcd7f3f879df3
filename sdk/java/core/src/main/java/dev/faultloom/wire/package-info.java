/**
 * Encodes and decodes the message format: envelopes of requests, histories of replies, and their carriers.
 * {@code docs/formats/messages.md} is the contract and {@code spec/vectors} proves it.
 *
 * <p>All functions are pure: no clock, no environment, no network, no keys. Unsigned 64-bit numbers of the format, such
 * as call ids, are {@code long}s with the same bits. Decoders validate every length and throw only {@link
 * dev.faultloom.wire.WireError}.
 */
package dev.faultloom.wire;

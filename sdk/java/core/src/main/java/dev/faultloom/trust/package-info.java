/**
 * Decides which envelopes to accept: holds the keys of the environment, reads them again when their file changes,
 * verifies envelopes in the order that the format defines, and rejects replayed plans.
 *
 * <p>A process without trust settings is inactive: it ignores envelopes and leaves replies unchanged.
 */
package dev.faultloom.trust;

/**
 * Decides which envelopes to believe: holds the environment's keys, reads them again when their file changes, runs the
 * checks of the format in their order, and remembers plans so that none counts twice.
 *
 * <p>An SDK without settings is deaf: envelopes are ignored and replies stay untouched.
 */
package dev.faultloom.trust;

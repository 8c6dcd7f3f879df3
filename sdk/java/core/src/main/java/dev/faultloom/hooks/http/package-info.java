/**
 * The parts that the hooks of all HTTP libraries share: extracting the history from a reply on the client side, and
 * buffering a reply until its history is complete on the server side. Nothing here depends on a library.
 */
package dev.faultloom.hooks.http;

/**
 * What a service knows while it answers one call: decides which fault fires at each send and records the history that goes
 * back with the reply (3MileBeach §4.2, §4.3).
 */
package dev.faultloom.scope;

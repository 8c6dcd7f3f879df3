/**
 * The work of a service for one request: decides which fault fires at each send and records the history that returns
 * with the reply (3MileBeach §4.2, §4.3).
 */
package dev.faultloom.scope;

/**
 * The fault dispatcher: what each kind of fault does to a call. The functions of {@link
 * dev.faultloom.hooks.faults.Faults} are pure: no I/O, no clock. Hooks map an {@link
 * dev.faultloom.hooks.faults.Outcome} to exceptions and objects of their library; no other code compares fault kinds.
 */
package dev.faultloom.hooks.faults;

/** Requests that start at this service: sampling, export of their histories, and the status file. */
package dev.faultloom.entry;

/**
 * Requests that start at this service: sampling, export of their histories, the settings of this process, and the status
 * file.
 */
package dev.faultloom.entry;

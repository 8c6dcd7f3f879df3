/**
 * Requests that start at this service: sampling and the export of their histories. Also the settings of this process,
 * and its status file.
 */
package dev.faultloom.entry;

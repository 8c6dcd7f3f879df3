/** Requests that begin at this service: drawing them, exporting their histories, and telling what this SDK hooked. */
package dev.faultloom.entry;

/**
 * What every HTTP library needs: finding the history of a reply on the sending side, and holding a reply back until its
 * history is known on the receiving side. Nothing here knows a library.
 */
package dev.faultloom.http;

/** The hooks of {@code HttpURLConnection}. They are on the boot class path, like its implementation. */
package dev.faultloom.hooks.urlconnection;

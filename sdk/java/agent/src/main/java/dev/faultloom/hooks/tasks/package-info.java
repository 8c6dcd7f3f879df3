/** Propagates scopes through executors, futures and threads of the JDK. */
package dev.faultloom.hooks.tasks;

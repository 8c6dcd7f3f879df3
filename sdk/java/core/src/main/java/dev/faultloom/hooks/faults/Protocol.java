package dev.faultloom.hooks.faults;

/** The protocol of a call: it determines which statuses exist and which replies have a body to change. */
public enum Protocol { GRPC, HTTP }

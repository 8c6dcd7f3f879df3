/* The input trace. Parsed before the program starts, and read-only afterwards. */
#pragma once

#include "kernel.h"

#define TRACE_BYTES (64u << 20) /* the largest file */
#define CONNECTIONS 4096
#define ANSWERS 4096
#define PORT_ANY 0

enum act { ACT_CONNECT, ACT_SEND, ACT_CLOSE, ACT_WAIT };

struct step {
    enum act act;
    uint32_t connection; /* of a wait: milliseconds */
    bool datagram;
    uint16_t port;
    uint32_t length;
    const uint8_t *bytes;
};

/* An upstream server's answer to a query. The first two bytes of both are an id. */
struct upstream_answer {
    uint32_t address; /* IPv4 in network order; 0: any server */
    uint32_t query_length, length;
    const uint8_t *query, *bytes;
};

extern const struct step *trace_steps;
extern size_t trace_length;
extern const struct upstream_answer *trace_answers;
extern size_t trace_answers_length;

/* Parses a file, or ends the process with a note of what is invalid. */
void trace_read(const char *path);

/* Parses an input trace strictly (docs/formats/replay.md): a partly understood trace would be another experiment.
 *
 * Uses: records. */
#define _GNU_SOURCE
#include "trace.h"

#include "records.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SHORTEST_LINE 7 /* "wait 0\n" */

const struct step *trace_steps;
size_t trace_length;
const struct upstream_answer *trace_answers;
size_t trace_answers_length;

/* The rest of the file, and the current line for messages. */
struct reader {
    const uint8_t *at, *end;
    size_t line;
    bool opened[CONNECTIONS], closed[CONNECTIONS];
};

static _Noreturn void refuse(const struct reader *reader, const char *what)
{
    char why[160];
    snprintf(why, sizeof why, "the input trace is invalid in line %zu (payloads not counted): %s", reader->line,
             what);
    record_end(END_UNFIT, why);
}

static bool accept_text(struct reader *reader, const char *expected)
{
    size_t length = strlen(expected);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, expected, length))
        return false;
    reader->at += length;
    return true;
}

static void expect(struct reader *reader, const char *expected)
{
    if (!accept_text(reader, expected))
        refuse(reader, "the rest of the line does not fit its first word");
}

/* A decimal number without leading zeros, up to `max`. */
static uint32_t number(struct reader *reader, uint32_t max)
{
    const uint8_t *from = reader->at;
    uint64_t value = 0;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9' && reader->at - from < 10)
        value = value * 10 + (*reader->at++ - '0');
    if (reader->at == from || (*from == '0' && reader->at - from > 1) || value > max)
        refuse(reader, "a number is missing or out of range");
    return (uint32_t)value;
}

static const uint8_t *payload(struct reader *reader, uint32_t length)
{
    const uint8_t *bytes = reader->at;
    if ((size_t)(reader->end - reader->at) < length)
        refuse(reader, "the trace ends within a payload");
    reader->at += length;
    return bytes;
}

static struct step connect_step(struct reader *reader)
{
    struct step step = { .act = ACT_CONNECT, .connection = number(reader, CONNECTIONS - 1) };
    if (accept_text(reader, " udp "))
        step.datagram = true, step.port = (uint16_t)number(reader, UINT16_MAX);
    else if (accept_text(reader, " tcp "))
        step.port = (uint16_t)number(reader, UINT16_MAX);
    expect(reader, "\n");
    if (reader->opened[step.connection])
        refuse(reader, "the connection was opened before");
    reader->opened[step.connection] = true;
    return step;
}

static uint32_t open_connection(struct reader *reader)
{
    uint32_t connection = number(reader, CONNECTIONS - 1);
    if (!reader->opened[connection] || reader->closed[connection])
        refuse(reader, "the connection is not open");
    return connection;
}

static struct step send_step(struct reader *reader)
{
    struct step step = { .act = ACT_SEND, .connection = open_connection(reader) };
    expect(reader, " ");
    step.length = number(reader, TRACE_BYTES);
    expect(reader, "\n");
    step.bytes = payload(reader, step.length);
    expect(reader, "\n");
    return step;
}

static struct step close_step(struct reader *reader)
{
    struct step step = { .act = ACT_CLOSE, .connection = open_connection(reader) };
    reader->closed[step.connection] = true;
    expect(reader, "\n");
    return step;
}

static struct step wait_step(struct reader *reader)
{
    struct step step = { .act = ACT_WAIT, .connection = number(reader, UINT32_MAX) };
    expect(reader, "\n");
    return step;
}

static uint32_t address(struct reader *reader)
{
    if (accept_text(reader, "*"))
        return 0;
    uint8_t bytes[4];
    uint32_t value;
    for (int i = 0; i < 4; i++) {
        if (i)
            expect(reader, ".");
        bytes[i] = (uint8_t)number(reader, 255);
    }
    memcpy(&value, bytes, sizeof value);
    return value;
}

static struct upstream_answer answer_line(struct reader *reader)
{
    struct upstream_answer one = { .address = address(reader) };
    expect(reader, " ");
    one.query_length = number(reader, UINT16_MAX);
    expect(reader, " ");
    one.length = number(reader, UINT16_MAX);
    expect(reader, "\n");
    if (one.query_length < 2 || one.length < 2)
        refuse(reader, "a query and its answer have an id of two bytes");
    one.query = payload(reader, one.query_length);
    one.bytes = payload(reader, one.length);
    expect(reader, "\n");
    return one;
}

static void parse(struct reader *reader, struct step *steps, struct upstream_answer *answers)
{
    expect(reader, "replay 1\n");
    for (reader->line = 2; reader->at < reader->end; reader->line++) {
        if (accept_text(reader, "connect "))
            steps[trace_length++] = connect_step(reader);
        else if (accept_text(reader, "send "))
            steps[trace_length++] = send_step(reader);
        else if (accept_text(reader, "close "))
            steps[trace_length++] = close_step(reader);
        else if (accept_text(reader, "wait "))
            steps[trace_length++] = wait_step(reader);
        else if (accept_text(reader, "answer ")) {
            if (trace_answers_length == ANSWERS)
                refuse(reader, "there are too many answers");
            answers[trace_answers_length++] = answer_line(reader);
        } else
            refuse(reader, "it does not begin with connect, send, close, wait or answer");
    }
}

static void *pages(size_t bytes)
{
    long at = kernel(SYS_mmap, 0, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at < 0)
        record_end(END_UNFIT, "there is no memory for the input trace");
    return (void *)at;
}

/* Copies the file, so that later changes have no effect. */
static size_t load(const char *path, uint8_t **bytes)
{
    struct stat about;
    long file = kernel(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || kernel(SYS_fstat, file, &about) < 0)
        record_end(END_UNFIT, "the input trace cannot be opened");
    if (about.st_size > TRACE_BYTES)
        record_end(END_UNFIT, "the input trace is longer than 64 MiB");
    *bytes = pages((size_t)about.st_size);
    size_t length = 0;
    while (length < (size_t)about.st_size) {
        long some = kernel(SYS_read, file, *bytes + length, (size_t)about.st_size - length);
        if (some <= 0)
            record_end(END_UNFIT, "the input trace cannot be read");
        length += (size_t)some;
    }
    kernel(SYS_close, file);
    return length;
}

void trace_read(const char *path)
{
    static struct reader reader;
    uint8_t *bytes;
    size_t length = load(path, &bytes);
    reader = (struct reader){ .at = bytes, .end = bytes + length, .line = 1 };
    size_t steps_bytes = (length / SHORTEST_LINE + 1) * sizeof(struct step);
    size_t answers_bytes = ANSWERS * sizeof(struct upstream_answer);
    struct step *steps = pages(steps_bytes);
    struct upstream_answer *answers = pages(answers_bytes);
    parse(&reader, steps, answers);
    /* faults in the server must not change its clients' input */
    kernel(SYS_mprotect, bytes, length + 1, PROT_READ);
    kernel(SYS_mprotect, steps, steps_bytes + 1, PROT_READ);
    kernel(SYS_mprotect, answers, answers_bytes + 1, PROT_READ);
    trace_steps = steps;
    trace_answers = answers;
}

/* Writes output records.
 *
 * Uses: nothing. */
#define _GNU_SOURCE
#include "records.h"

#include <string.h>
#include <unistd.h>

#define NOTE UINT32_MAX

int records_descriptor = -1;

struct header {
    char magic[4];
    uint32_t connection, length;
};
_Static_assert(sizeof(struct header) == 12, "as drawn in records.h");

/* The pieces that fit into one record, after its header. */
static size_t take(struct iovec *into, const struct iovec *pieces, size_t count, size_t *bytes)
{
    size_t used = 0;
    *bytes = 0;
    for (size_t i = 0; i < count && used < RECORD_PIECES && *bytes < RECORD_BYTES; i++) {
        if (!pieces[i].iov_len)
            continue;
        size_t room = RECORD_BYTES - *bytes;
        into[used] = pieces[i];
        if (into[used].iov_len > room)
            into[used].iov_len = room;
        *bytes += into[used++].iov_len;
    }
    return used;
}

long record_pieces(uint32_t connection, const struct iovec *pieces, size_t count)
{
    struct header header = { .magic = "FLRO", .connection = connection };
    struct iovec all[1 + RECORD_PIECES];
    all[0] = (struct iovec){ &header, sizeof header };
    size_t bytes;
    size_t used = take(all + 1, pieces, count, &bytes);
    if (!bytes)
        return 0;
    header.length = (uint32_t)bytes;
    long written = kernel(SYS_writev, records_descriptor, all, 1 + used);
    if (written == (long)(sizeof header + bytes))
        return (long)bytes;
    if (written > 0) {
        /* unreadable memory or a full disk: a partial record would hide those after it */
        long end = kernel(SYS_lseek, records_descriptor, -written, SEEK_CUR);
        kernel(SYS_ftruncate, records_descriptor, end);
    }
    return written < 0 ? written : -EFAULT;
}

static void print_error(const char *why)
{
    struct iovec parts[] = { { "replay: ", 8 }, { (void *)why, strlen(why) }, { "\n", 1 } };
    kernel(SYS_writev, STDERR_FILENO, parts, 3);
}

_Noreturn void record_end(enum ending ending, const char *why)
{
    if (why) {
        struct iovec note = { (void *)why, strlen(why) };
        record_pieces(NOTE, &note, 1);
        print_error(why);
    }
    for (;;)
        kernel(SYS_exit_group, ending);
}

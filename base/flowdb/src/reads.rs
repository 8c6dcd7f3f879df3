//! The statements that read. Parameters: start (`$1`) and end (`$2`) of the requested interval.

use crate::statement::Kind::{Addr, Int, Text};
use crate::statement::Query;

pub const HOSTS: Query =
    Query::both(&[Text, Text, Int, Int], "SELECT id, name, first_ms, last_ms FROM hosts ORDER BY name, id");

pub const BOOTS: Query = Query::both(
    &[Text, Text, Text, Int, Int],
    "SELECT b.host, b.boot, h.name, b.first_ms, b.last_ms FROM boots b JOIN hosts h ON h.id = b.host \
    WHERE b.first_ms < $2 AND b.last_ms >= $1",
);

pub const ADDRESSES: Query = Query {
    columns: &[Text, Text, Int, Addr],
    sqlite: "SELECT a.host, a.boot, a.netns, a.ip FROM host_addresses a JOIN boots b ON b.host = a.host AND b.boot = a.boot \
        WHERE a.first_ms < $2 AND coalesce(a.last_ms, b.last_ms) >= $1 ORDER BY a.netns, a.ip",
    postgres: "SELECT a.host, a.boot, a.netns, host(a.ip) FROM host_addresses a \
        JOIN boots b ON b.host = a.host AND b.boot = a.boot \
        WHERE a.first_ms < $2 AND coalesce(a.last_ms, b.last_ms) >= $1 ORDER BY a.netns, a.ip",
};

pub const LISTENERS: Query = Query {
    columns: &[Text, Text, Text, Int, Text, Addr, Int, Text],
    sqlite: "SELECT n.host, n.boot, service, netns, protocol, ip, port, path FROM passive_nodes n \
        WHERE first_ms < $2 AND last_ms >= $1 ORDER BY n.host, n.boot, netns, protocol, port, ip, path, service",
    postgres: "SELECT n.host, n.boot, service, netns, protocol, host(ip), port, path FROM passive_nodes n \
        WHERE first_ms < $2 AND last_ms >= $1 ORDER BY n.host, n.boot, netns, protocol, port, ip, path, service",
};

pub const PROCESSES: Query = Query::both(
    &[Text, Text, Int, Int, Text, Int, Text, Int, Int],
    "SELECT host, boot, pid, start_ticks, service, netns, comm, first_ms, last_ms FROM processes \
    WHERE first_ms < $2 AND last_ms >= $1 ORDER BY pid, start_ticks",
);

pub const SERVICES: Query = Query::both(
    &[Text, Text, Text, Text, Text, Text, Text, Text, Text],
    "SELECT key, kind, name, executable, arguments, container, pod, unit, cgroup FROM services \
    WHERE first_ms < $2 AND last_ms >= $1",
);

/// `$3` is the maximum number of rows.
pub const FLOWS: Query = Query {
    columns: &[
        Text, Text, Text, Text, Int, Int, Int, Text, Addr, Addr, Int, Text, Addr, Int, Text, Text, Text, Int, Int, Int,
        Int, Int, Int, Int,
    ],
    // SQLite returns `open` of the row of the group with the greatest from_ms
    sqlite: "SELECT f.host, f.boot, f.side, f.service, f.pid, f.start_ticks, f.netns, f.protocol, f.active_ip, f.passive_ip, \
        f.passive_port, f.passive_path, f.translated_ip, f.translated_port, f.translated_path, f.source, f.attribution, \
        c.opened, c.established, c.failed, c.closed, c.open, c.sent, c.received \
        FROM (SELECT flow, sum(opened) opened, sum(established) established, sum(failed) failed, sum(closed) closed, open, \
        sum(sent) sent, sum(received) received, max(from_ms) FROM ( \
        SELECT * FROM flow_counts WHERE span_ms = 60000 AND from_ms > $1 - 60000 AND from_ms < $2 UNION ALL \
        SELECT * FROM flow_counts WHERE span_ms = 3600000 AND from_ms > $1 - 3600000 AND from_ms < $2 \
        ) GROUP BY flow LIMIT $3) c JOIN flows f ON f.flow = c.flow",
    postgres: "SELECT f.host, f.boot, f.side, f.service, f.pid, f.start_ticks, f.netns, f.protocol, host(f.active_ip), \
        host(f.passive_ip), f.passive_port, f.passive_path, host(f.translated_ip), f.translated_port, f.translated_path, \
        f.source, f.attribution, c.opened, c.established, c.failed, c.closed, c.open, c.sent, c.received \
        FROM (SELECT flow, sum(opened)::bigint opened, sum(established)::bigint established, sum(failed)::bigint failed, \
        sum(closed)::bigint closed, (array_agg(open ORDER BY from_ms DESC))[1] open, sum(sent)::bigint sent, \
        sum(received)::bigint received FROM ( \
        SELECT * FROM flow_counts WHERE span_ms = 60000 AND from_ms > $1 - 60000 AND from_ms < $2 UNION ALL \
        SELECT * FROM flow_counts WHERE span_ms = 3600000 AND from_ms > $1 - 3600000 AND from_ms < $2 \
        ) counts GROUP BY flow LIMIT $3) c JOIN flows f ON f.flow = c.flow",
};

pub const LOSSES: Query = Query {
    columns: &[Text, Text, Int, Int, Int, Int, Int, Int],
    sqlite: "SELECT host, boot, sum(table_full), sum(recursion), sum(windows), sum(unreadable), sum(closed_unseen), \
        sum(between_polls) FROM losses WHERE from_ms + span_ms > $1 AND from_ms < $2 GROUP BY host, boot",
    postgres: "SELECT host, boot, sum(table_full)::bigint, sum(recursion)::bigint, sum(windows)::bigint, \
        sum(unreadable)::bigint, sum(closed_unseen)::bigint, sum(between_polls)::bigint FROM losses \
        WHERE from_ms + span_ms > $1 AND from_ms < $2 GROUP BY host, boot",
};

/// [`LOSSES`] of a database of version 1, which counts fewer.
pub const LOSSES_1: Query = Query {
    columns: &[Text, Text, Int, Int, Int, Int],
    sqlite: "SELECT host, boot, sum(table_full), sum(recursion), sum(windows), sum(unreadable) FROM losses \
        WHERE from_ms + span_ms > $1 AND from_ms < $2 GROUP BY host, boot",
    postgres: "SELECT host, boot, sum(table_full)::bigint, sum(recursion)::bigint, sum(windows)::bigint, \
        sum(unreadable)::bigint FROM losses WHERE from_ms + span_ms > $1 AND from_ms < $2 GROUP BY host, boot",
};

/// A database opened for reading may be older, and a writer may migrate it meanwhile.
pub const SCHEMA_VERSION: Query = Query {
    columns: &[Int],
    sqlite: "SELECT user_version FROM pragma_user_version",
    postgres: "SELECT version FROM schema_version",
};

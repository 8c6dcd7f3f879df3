//! The statements that write, in execution order. All writers use this order, and the rows of a statement are sorted,
//! so that writers cannot deadlock.

use crate::statement::Change;
use crate::statement::Kind::{Addr, Int, Key, Text};

/// Creates the agent's row if necessary and locks it, so that writers of the same windows run one after the other.
pub const AGENTS: Change = Change {
    columns: &[("agent", Text), ("host", Text), ("boot", Text), ("source", Text), ("first_ms", Int), ("last_ms", Int)],
    then: "INSERT INTO agents (agent, host, boot, source, recorded, first_ms, last_ms) \
        SELECT agent, host, boot, source, '', first_ms, last_ms FROM r WHERE true \
        ON CONFLICT (agent) DO UPDATE SET source = excluded.source RETURNING agent, recorded",
};

pub const RECORDED: Change = Change {
    columns: &[("agent", Text), ("recorded", Text), ("last_ms", Int)],
    then: "UPDATE agents SET recorded = r.recorded, \
        last_ms = CASE WHEN agents.last_ms < r.last_ms THEN r.last_ms ELSE agents.last_ms END \
        FROM r WHERE agents.agent = r.agent",
};

pub const HOSTS: Change = Change {
    columns: &[("id", Text), ("name", Text), ("first_ms", Int), ("last_ms", Int)],
    then: "INSERT INTO hosts (id, name, first_ms, last_ms) SELECT id, name, first_ms, last_ms FROM r WHERE true \
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, \
        first_ms = CASE WHEN excluded.first_ms < hosts.first_ms THEN excluded.first_ms ELSE hosts.first_ms END, \
        last_ms = CASE WHEN excluded.last_ms > hosts.last_ms THEN excluded.last_ms ELSE hosts.last_ms END",
};

pub const BOOTS: Change = Change {
    columns: &[("host", Text), ("boot", Text), ("first_ms", Int), ("last_ms", Int)],
    then: "INSERT INTO boots (host, boot, first_ms, last_ms) SELECT host, boot, first_ms, last_ms FROM r WHERE true \
        ON CONFLICT (host, boot) DO UPDATE SET \
        first_ms = CASE WHEN excluded.first_ms < boots.first_ms THEN excluded.first_ms ELSE boots.first_ms END, \
        last_ms = CASE WHEN excluded.last_ms > boots.last_ms THEN excluded.last_ms ELSE boots.last_ms END",
};

/// Ends the addresses that a host no longer has. A row without key only names its host, which may have no address left.
pub const ADDRESSES_REMOVED: Change = Change {
    columns: &[("host", Text), ("boot", Text), ("to_ms", Int), ("key", Key)],
    then: "UPDATE host_addresses SET last_ms = CASE WHEN first_ms > h.to_ms THEN first_ms ELSE h.to_ms END \
        FROM (SELECT DISTINCT host, boot, to_ms FROM r) h \
        WHERE host_addresses.host = h.host AND host_addresses.boot = h.boot AND last_ms IS NULL \
        AND NOT EXISTS (SELECT 1 FROM r WHERE r.key = host_addresses.key)",
};

pub const ADDRESSES: Change = Change {
    columns: &[("key", Key), ("host", Text), ("boot", Text), ("netns", Int), ("ip", Addr), ("first_ms", Int)],
    then: "INSERT INTO host_addresses (key, host, boot, netns, ip, first_ms) \
        SELECT key, host, boot, netns, ip, first_ms FROM r WHERE true ON CONFLICT (key) WHERE last_ms IS NULL DO NOTHING",
};

pub const SERVICES: Change = Change {
    columns: &[
        ("key", Text),
        ("host", Text),
        ("kind", Text),
        ("name", Text),
        ("executable", Text),
        ("arguments", Text),
        ("container", Text),
        ("pod", Text),
        ("unit", Text),
        ("cgroup", Text),
        ("first_ms", Int),
        ("last_ms", Int),
    ],
    then: "INSERT INTO services \
        (key, host, kind, name, executable, arguments, container, pod, unit, cgroup, first_ms, last_ms) \
        SELECT key, host, kind, name, executable, arguments, container, pod, unit, cgroup, first_ms, last_ms FROM r \
        WHERE true \
        ON CONFLICT (key) DO UPDATE SET name = excluded.name, executable = excluded.executable, \
        arguments = excluded.arguments, container = excluded.container, pod = excluded.pod, unit = excluded.unit, \
        cgroup = excluded.cgroup",
};

/// Services that are referenced without a new description.
pub const SERVICES_ACTIVE: Change = Change {
    columns: &[("key", Text), ("last_ms", Int)],
    then: "UPDATE services SET last_ms = r.last_ms FROM r WHERE services.key = r.key AND services.last_ms < r.last_ms",
};

/// `last_ms` is rounded to the minute, so that a process costs one write per minute. `comm` is empty if only a flow
/// references the process.
pub const PROCESSES: Change = Change {
    columns: &[
        ("host", Text),
        ("boot", Text),
        ("pid", Int),
        ("start_ticks", Int),
        ("service", Text),
        ("netns", Int),
        ("comm", Text),
        ("first_ms", Int),
        ("last_ms", Int),
    ],
    then: "INSERT INTO processes (host, boot, pid, start_ticks, service, netns, comm, first_ms, last_ms) \
        SELECT host, boot, pid, start_ticks, service, netns, comm, first_ms, last_ms FROM r WHERE true \
        ON CONFLICT (host, boot, pid, start_ticks) DO UPDATE SET service = excluded.service, \
        comm = CASE WHEN excluded.comm = '' THEN processes.comm ELSE excluded.comm END, \
        last_ms = CASE WHEN excluded.last_ms > processes.last_ms THEN excluded.last_ms ELSE processes.last_ms END \
        WHERE excluded.last_ms > processes.last_ms OR excluded.service <> processes.service \
        OR (excluded.comm <> processes.comm AND excluded.comm <> '')",
};

/// As [`ADDRESSES_REMOVED`].
pub const LISTENERS_REMOVED: Change = Change {
    columns: &[("host", Text), ("boot", Text), ("to_ms", Int), ("key", Key)],
    then: "UPDATE listeners SET last_ms = CASE WHEN first_ms > h.to_ms THEN first_ms ELSE h.to_ms END \
        FROM (SELECT DISTINCT host, boot, to_ms FROM r) h \
        WHERE listeners.host = h.host AND listeners.boot = h.boot AND last_ms IS NULL \
        AND NOT EXISTS (SELECT 1 FROM r WHERE r.key = listeners.key)",
};

pub const LISTENERS: Change = Change {
    columns: &[
        ("key", Key),
        ("host", Text),
        ("boot", Text),
        ("service", Text),
        ("netns", Int),
        ("protocol", Text),
        ("ip", Addr),
        ("port", Int),
        ("path", Text),
        ("first_ms", Int),
    ],
    then: "INSERT INTO listeners (key, host, boot, service, netns, protocol, ip, port, path, first_ms) \
        SELECT key, host, boot, service, netns, protocol, ip, port, path, first_ms FROM r WHERE true \
        ON CONFLICT (key) WHERE last_ms IS NULL DO NOTHING",
};

pub const FLOWS: Change = Change {
    columns: &[
        ("flow", Key),
        ("host", Text),
        ("boot", Text),
        ("side", Text),
        ("service", Text),
        ("pid", Int),
        ("start_ticks", Int),
        ("netns", Int),
        ("protocol", Text),
        ("active_ip", Addr),
        ("passive_ip", Addr),
        ("passive_port", Int),
        ("passive_path", Text),
        ("translated_ip", Addr),
        ("translated_port", Int),
        ("translated_path", Text),
        ("source", Text),
        ("attribution", Text),
        ("first_ms", Int),
        ("last_ms", Int),
    ],
    then: "INSERT INTO flows (flow, host, boot, side, service, pid, start_ticks, netns, protocol, active_ip, passive_ip, \
        passive_port, passive_path, translated_ip, translated_port, translated_path, source, attribution, first_ms, last_ms) \
        SELECT flow, host, boot, side, service, pid, start_ticks, netns, protocol, active_ip, passive_ip, passive_port, \
        passive_path, translated_ip, translated_port, translated_path, source, attribution, first_ms, last_ms FROM r \
        WHERE true ON CONFLICT (flow) DO UPDATE SET last_ms = excluded.last_ms WHERE flows.last_ms < excluded.last_ms",
};

/// Adds the counts of a window; `open` is that of the last recorded window.
pub const FLOW_COUNTS: Change = Change {
    columns: &[
        ("from_ms", Int),
        ("span_ms", Int),
        ("flow", Key),
        ("opened", Int),
        ("established", Int),
        ("failed", Int),
        ("closed", Int),
        ("open", Int),
        ("sent", Int),
        ("received", Int),
    ],
    then: "INSERT INTO flow_counts (from_ms, span_ms, flow, opened, established, failed, closed, open, sent, received) \
        SELECT from_ms, span_ms, flow, opened, established, failed, closed, open, sent, received FROM r WHERE true \
        ON CONFLICT (span_ms, from_ms, flow) DO UPDATE SET opened = flow_counts.opened + excluded.opened, \
        established = flow_counts.established + excluded.established, failed = flow_counts.failed + excluded.failed, \
        closed = flow_counts.closed + excluded.closed, open = excluded.open, sent = flow_counts.sent + excluded.sent, \
        received = flow_counts.received + excluded.received",
};

pub const LOSSES: Change = Change {
    columns: &[
        ("from_ms", Int),
        ("span_ms", Int),
        ("host", Text),
        ("boot", Text),
        ("table_full", Int),
        ("recursion", Int),
        ("windows", Int),
        ("unreadable", Int),
        ("closed_unseen", Int),
        ("between_polls", Int),
    ],
    then: "INSERT INTO losses \
        (from_ms, span_ms, host, boot, table_full, recursion, windows, unreadable, closed_unseen, between_polls) \
        SELECT from_ms, span_ms, host, boot, table_full, recursion, windows, unreadable, closed_unseen, between_polls \
        FROM r WHERE true \
        ON CONFLICT (span_ms, from_ms, host, boot) DO UPDATE SET table_full = losses.table_full + excluded.table_full, \
        recursion = losses.recursion + excluded.recursion, windows = losses.windows + excluded.windows, \
        unreadable = losses.unreadable + excluded.unreadable, \
        closed_unseen = losses.closed_unseen + excluded.closed_unseen, \
        between_polls = losses.between_polls + excluded.between_polls",
};

CREATE TABLE hosts (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    first_ms BIGINT NOT NULL,
    last_ms BIGINT NOT NULL
);

-- Boots of hosts: ids of processes and of network namespaces are valid within one boot.
CREATE TABLE boots (
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    first_ms BIGINT NOT NULL,
    last_ms BIGINT NOT NULL,
    PRIMARY KEY (host, boot)
);

-- Runs of agents, with the sequence numbers of the windows that were recorded: '1-3600 3605-7200'.
CREATE TABLE agents (
    agent TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    source TEXT NOT NULL,
    recorded TEXT NOT NULL,
    first_ms BIGINT NOT NULL,
    last_ms BIGINT NOT NULL
);

-- last_ms is null while the host has the address, according to its last window.
CREATE TABLE host_addresses (
    key UUID NOT NULL,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    netns BIGINT NOT NULL,
    ip INET NOT NULL,
    first_ms BIGINT NOT NULL,
    last_ms BIGINT
);
CREATE UNIQUE INDEX host_addresses_open ON host_addresses (key) WHERE last_ms IS NULL;
CREATE INDEX host_addresses_boot ON host_addresses (host, boot);
CREATE INDEX host_addresses_ip ON host_addresses (ip);

-- last_ms is rounded up to a day here and in flows, so that a row is written once a day.
CREATE TABLE services (
    key TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    executable TEXT,
    arguments TEXT,
    container TEXT,
    pod TEXT,
    unit TEXT,
    cgroup TEXT,
    first_ms BIGINT NOT NULL,
    last_ms BIGINT NOT NULL
);
CREATE INDEX services_name ON services (name);

CREATE TABLE processes (
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid BIGINT NOT NULL,
    start_ticks BIGINT NOT NULL,
    service TEXT NOT NULL,
    netns BIGINT NOT NULL,
    comm TEXT NOT NULL,
    first_ms BIGINT NOT NULL,
    last_ms BIGINT NOT NULL,
    PRIMARY KEY (host, boot, pid, start_ticks)
);

-- last_ms is null while the service listens there, according to the last window of the host.
CREATE TABLE listeners (
    key UUID NOT NULL,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    service TEXT NOT NULL,
    netns BIGINT NOT NULL,
    protocol TEXT NOT NULL,
    ip INET,
    port BIGINT,
    path TEXT,
    first_ms BIGINT NOT NULL,
    last_ms BIGINT
);
CREATE UNIQUE INDEX listeners_open ON listeners (key) WHERE last_ms IS NULL;
CREATE INDEX listeners_boot ON listeners (host, boot);
CREATE INDEX listeners_port ON listeners (port);

-- Identity of flows. pid and start_ticks are null for short-lived processes; there are no ephemeral ports.
CREATE TABLE flows (
    flow UUID PRIMARY KEY,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    side TEXT NOT NULL,
    service TEXT NOT NULL,
    pid BIGINT,
    start_ticks BIGINT,
    netns BIGINT NOT NULL,
    protocol TEXT NOT NULL,
    active_ip INET,
    passive_ip INET,
    passive_port BIGINT,
    passive_path TEXT,
    translated_ip INET,
    translated_port BIGINT,
    translated_path TEXT,
    source TEXT NOT NULL,
    attribution TEXT NOT NULL,
    first_ms BIGINT NOT NULL,
    last_ms BIGINT NOT NULL
);
CREATE INDEX flows_passive ON flows (coalesce(translated_port, passive_port), coalesce(translated_ip, passive_ip));

-- Counts of flows in the interval of span_ms from from_ms: a minute, or an hour for older data.
CREATE TABLE flow_counts (
    from_ms BIGINT NOT NULL,
    span_ms BIGINT NOT NULL,
    flow UUID NOT NULL,
    opened BIGINT NOT NULL,
    established BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    closed BIGINT NOT NULL,
    open BIGINT NOT NULL,
    sent BIGINT NOT NULL,
    received BIGINT NOT NULL,
    PRIMARY KEY (span_ms, from_ms, flow)
) WITH (fillfactor = 70);

CREATE TABLE losses (
    from_ms BIGINT NOT NULL,
    span_ms BIGINT NOT NULL,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    table_full BIGINT NOT NULL,
    recursion BIGINT NOT NULL,
    windows BIGINT NOT NULL,
    unreadable BIGINT NOT NULL,
    PRIMARY KEY (span_ms, from_ms, host, boot)
);

-- The connecting side. The port is that of the destination, after any translation on its host. local is 1 if it
-- connects to its own host by a loopback address.
CREATE VIEW active_nodes AS
SELECT f.flow, f.host, h.name AS host_name, f.boot, f.service, s.kind AS service_kind, s.name AS service_name, f.pid,
    f.start_ticks, f.netns, f.protocol, f.active_ip,
    coalesce(f.translated_ip, f.passive_ip) AS passive_ip,
    coalesce(f.translated_port, f.passive_port) AS passive_port,
    coalesce(f.translated_path, f.passive_path) AS passive_path,
    CASE WHEN coalesce(f.translated_ip, f.passive_ip) <<= '127.0.0.0/8' OR coalesce(f.translated_ip, f.passive_ip) = '::1' THEN 1 ELSE 0 END AS local,
    f.source, f.attribution
FROM flows f JOIN hosts h ON h.id = f.host LEFT JOIN services s ON s.key = f.service
WHERE f.side = 'active';

-- The listening side, with its port.
CREATE VIEW passive_nodes AS
SELECT l.host, h.name AS host_name, l.boot, l.service, s.kind AS service_kind, s.name AS service_name, l.netns, l.protocol,
    l.ip, l.port, l.path, l.first_ms, coalesce(l.last_ms, b.last_ms) AS last_ms
FROM listeners l JOIN hosts h ON h.id = l.host JOIN boots b ON b.host = l.host AND b.boot = l.boot
LEFT JOIN services s ON s.key = l.service;

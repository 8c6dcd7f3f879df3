// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// What the programs and user space share. `src/ebpf/layout.rs` mirrors it, and a test compares the sizes.
//
// The tables of flows and processes exist twice. The programs write into the one of the current epoch; user space
// switches the epoch, waits until no program can still hold the old one, then reads and empties it. So counts are
// differences, none is lost between reading and deleting, and a table holds one interval only, however short-lived the
// processes are.
#pragma once

enum side { ACTIVE = 1, PASSIVE = 2 };
enum attribution { EXACT = 1, LISTENER = 2, NOBODY = 3 };

struct instance {
	__u64 start_ns; // since boot
	__u32 tgid;     // 0: nobody is known
	__u32 zero;
};

struct flow_key {
	__u64 start_ns;
	__u32 tgid;
	__u32 netns;
	__u8 active[16]; // IPv4 as ::ffff:a.b.c.d, so that dual-stack sockets meet their peers
	__u8 passive[16];
	__u16 port; // of the passive side
	__u8 protocol;
	__u8 side;
	__u8 attribution;
	__u8 zero[3];
};

struct flow_counts {
	__u32 opened;
	__u32 established;
	__u32 failed;
	__u32 closed;  // after having been established
	__u32 adopted; // open, but not opened in this flow: older than the agent, or moved here
	__u32 moved;   // no longer open in this flow: another owner was found
	__u32 example_port;
	__u32 zero;
	__u64 sent;
	__u64 received;
};

struct process {
	__u64 cgroup;
	char comm[16];
	char executable[64];
	__u32 arguments_len;
	__u32 zero;
	__u8 arguments[256];
};

struct listener {
	__u64 start_ns;
	__u32 tgid;
	__u32 netns;
	__u8 address[16];
	__u16 port;
	__u16 protocol;
	__u32 zero;
};

// One per TCP socket, freed with it. A connection inherits that of its listening socket, and so begins with the owner of
// exactly this one among several on the port.
struct tracked {
	struct flow_key key;
	__u32 state;
	__u32 pass; // the last one that visited it
	__u64 sent, received; // told so far
};
enum {
	LISTENING = 1,   // this, or inherited and not yet a connection
	COUNTED = 2,     // stands in the table of flows
	UNSETTLED = 4,   // passive, and who accepted it is not known yet: not counted
	ESTABLISHED = 8,
	GONE = 16,       // closed
};

struct control { // written by user space
	__u32 epoch;
	__u32 pass;
	__u32 wake_at; // user space is woken when this many keys have been inserted
	__u32 zero;
};

struct tally { // written by the programs
	__u32 inserted;
	__u32 listeners_changed;
};

enum { UNSETTLED_NOW, LOST_FLOWS, LOST_PROCESSES, LOST_SOCKETS, LOST_LISTENERS, COUNTERS };

#define NOTES 64

struct note { // of the hook for its second self: which event it handles
	__u64 sk;
	__u32 to;
	__u32 zero;
};

#define FLOWS 65536
#define PROCESSES 32768
#define LISTENERS 16384

#define TABLE(kind, key_, value_, size)          \
	__uint(type, kind);                      \
	__uint(max_entries, size);               \
	__type(key, key_);                       \
	__type(value, value_)

struct flow_table {
	TABLE(BPF_MAP_TYPE_HASH, struct flow_key, struct flow_counts, FLOWS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} flows_even SEC(".maps"), flows_odd SEC(".maps");

struct process_table {
	TABLE(BPF_MAP_TYPE_HASH, struct instance, struct process, PROCESSES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} processes_even SEC(".maps"), processes_odd SEC(".maps");

struct {
	TABLE(BPF_MAP_TYPE_HASH, __u64, struct listener, LISTENERS); // by address of the socket
	__uint(map_flags, BPF_F_NO_PREALLOC);
} listeners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct tracked);
} sockets SEC(".maps");

struct {
	TABLE(BPF_MAP_TYPE_ARRAY, __u32, struct control, 1);
} control SEC(".maps");

struct {
	TABLE(BPF_MAP_TYPE_ARRAY, __u32, struct tally, 1);
} tally SEC(".maps");

struct {
	TABLE(BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u64, COUNTERS);
} counters SEC(".maps");

struct {
	TABLE(BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct note, NOTES);
} notes SEC(".maps");

// Two, because a pass may be interrupted by the hook.
struct {
	TABLE(BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct process, 2);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} wake SEC(".maps");

static __always_inline void counter(__u32 which, __s64 by)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &which);
	if (value)
		__sync_fetch_and_add(value, by);
}

// What is kept of a socket. If another collector begins with the same socket at the same moment, the kernel refuses one
// of the two; after that the socket has a place for both. Two passes over the same files, once they meet, go on side by
// side, so this is no rare event.
static __always_inline struct tracked *track(struct sock *sk)
{
#pragma unroll
	for (int i = 0; i < 3; i++) {
		struct tracked *it = bpf_sk_storage_get(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (it)
			return it;
	}
	counter(LOST_SOCKETS, 1);
	return 0;
}

static __always_inline struct control *controls(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&control, &zero);
}

static __always_inline void listeners_changed(void)
{
	__u32 zero = 0;
	struct tally *it = bpf_map_lookup_elem(&tally, &zero);
	if (it)
		__sync_fetch_and_add(&it->listeners_changed, 1);
}

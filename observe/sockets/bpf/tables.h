// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Types and maps that the programs share with user space. `src/ebpf/layout.rs` mirrors them; a test compares the sizes.
//
// The flow and process tables are double-buffered. The programs write to the table of the current epoch. User space
// switches the epoch, waits until no running program can still use the old table, then reads and empties it. Counts are
// therefore differences, no count is lost between reading and deleting, and a table holds only one interval, however
// short-lived the processes are.
#pragma once

enum side { ACTIVE = 1, PASSIVE = 2 };
enum attribution { EXACT = 1, LISTENER = 2, NOBODY = 3 };

struct task_id {
	__u64 start_ns; // since boot
	__u32 tgid;     // 0: unknown process
	__u32 zero;
};

struct flow_key {
	__u64 start_ns;
	__u32 tgid;
	__u32 netns;
	__u8 active[16]; // IPv4 as ::ffff:a.b.c.d, so that dual-stack sockets match their peers
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
	__u32 adopted; // open, but not opened in this flow: older than the agent, or moved here from another owner
	__u32 example_port;
	// Found by a comparison (comparison.h):
	__u32 compared; // open
	__u32 ended;    // ended after the comparison began and before it reached the socket
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

// State of one TCP socket, freed with the socket. A connection inherits the state of its listening socket, so that it
// starts with the owner of that listener even if several processes listen on the port.
struct tracked {
	struct flow_key key;
	__u32 state;
	__u32 scan; // number of the last file scan that found the socket
	__u64 sent, received; // already added to the flow's counts
};
enum {
	LISTENING = 1,     // listens, or inherited this state and is not a connection yet
	COUNTED = 2,       // included in the flow table
	UNATTRIBUTED = 4,  // passive, accepting process not known yet; not counted
	ESTABLISHED = 8,
	GONE = 16,         // closed
	CLAIMED = 32,      // a program is about to count it, or has counted it
	COMPARED_EVEN = 64, // the comparison with this parity needs nothing from it anymore
	COMPARED_ODD = 128,
};

struct control { // written by user space
	__u32 epoch; // bit 0 selects the tables; the other bits are the number of the last comparison (comparison.h)
	__u32 scan;
	__u32 wake_at; // number of inserted keys at which user space is woken
	__u32 zero;
};

struct tally { // written by the programs
	__u32 inserted;
	__u32 listeners_changed;
};

enum { UNATTRIBUTED_NOW, LOST_FLOWS, LOST_PROCESSES, LOST_SOCKETS, LOST_LISTENERS, CLOSED_UNSEEN, COUNTERS };

#define EVENTS 64

struct handled_event { // the event that the first copy of the hook is handling
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
	TABLE(BPF_MAP_TYPE_HASH, struct task_id, struct process, PROCESSES);
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
	TABLE(BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct handled_event, EVENTS);
} handled_events SEC(".maps");

// Two entries, because the hook can interrupt a file scan.
struct {
	TABLE(BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct process, 2);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} wake SEC(".maps");

static __always_inline void add_to_counter(__u32 which, __s64 by)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &which);
	if (value)
		__sync_fetch_and_add(value, by);
}

// Returns the state of a socket and creates it if necessary. If another collector creates its own state for the same
// socket at the same moment, the kernel rejects one of the two; a retry then succeeds. Two file scans that reach the
// same socket continue in lockstep, so this is common.
static __always_inline struct tracked *track(struct sock *sk)
{
#pragma unroll
	for (int i = 0; i < 3; i++) {
		struct tracked *tracked = bpf_sk_storage_get(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (tracked)
			return tracked;
	}
	add_to_counter(LOST_SOCKETS, 1);
	return 0;
}

static __always_inline struct control *get_control(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&control, &zero);
}

// Programs read the epoch once, so that they count in one table and for one comparison.
static __always_inline __u32 get_epoch(void)
{
	struct control *control = get_control();
	return control ? control->epoch : 0;
}

static __always_inline __u32 compared_flag(__u32 epoch)
{
	return epoch & 2 ? COMPARED_ODD : COMPARED_EVEN;
}

static __always_inline void listeners_changed(void)
{
	__u32 zero = 0;
	struct tally *counts = bpf_map_lookup_elem(&tally, &zero);
	if (counts)
		__sync_fetch_and_add(&counts->listeners_changed, 1);
}

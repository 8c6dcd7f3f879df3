// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Counts TCP connections in the kernel. Transtracer §3.2 polls /proc instead and misses connections that live between
// two polls.
//
// One hook runs on each state change of a TCP socket:
//
//   → SYN_SENT              the current process connects: the owner is exact, count as opened
//   → LISTEN                the current process listens
//   SYN_RECV → ESTABLISHED  runs in an interrupt, the current process is unrelated: mark as unattributed
//   → FIN_WAIT1, LAST_ACK   the current process closes, also among prefork workers: attribute to it
//   → CLOSE                 count bytes and failures; if still unattributed (reset), only the listener is known
//
// A scan of the open files of all processes (file_scan.h) finds connections that are older than the agent or stay open
// for long. A comparison with the kernel's sockets (comparison.h) finds connections whose end the hook did not see.
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "tables.h"
#include "owner.h"
#include "flow.h"
#include "connection.h"
#include "non_tcp.h"
#include "file_scan.h"
#include "comparison.h"

// Tracing programs must be GPL-compatible.
char LICENSE[] SEC("license") = "GPL";

static __always_inline void on_connect(struct sock *sk)
{
	struct tracked *tracked = track(sk);
	if (!tracked)
		return;
	// Both copies of the hook handle one event if an interrupt replaces its record in between.
	if ((tracked->state & (COUNTED | ESTABLISHED | GONE)) == COUNTED)
		return;
	struct task_struct *task = bpf_get_current_task_btf();
	set_owner(tracked, task);
	set_key(tracked, sk, ACTIVE);
	tracked->state = 0;
	__u32 epoch = get_epoch();
	struct flow_counts *counts = flow_counts_of(epoch, &tracked->key, task, true);
	if (!counts)
		return;
	COUNT(counts, opened, 1);
	tracked->state = COUNTED | CLAIMED | compared_flag(epoch);
}

static __always_inline void on_listen(struct sock *sk)
{
	struct control *control = get_control();
	struct tracked *tracked = track(sk);
	if (!tracked || !control)
		return;
	struct task_struct *task = bpf_get_current_task_btf();
	set_owner(tracked, task);
	tracked->state = LISTENING;
	capture_process(task, control->epoch, true);
	add_listener(tracked, sk, (__u64)sk);
}

static __always_inline void on_established(struct sock *sk, int from)
{
	struct tracked *tracked = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (!tracked) {
		// Its listener is older than the agent, and no file scan has found it yet.
		if (from != TCP_SYN_RECV)
			return;
		tracked = track(sk);
		if (!tracked)
			return;
		tracked->state = LISTENING;
	}
	set_established(tracked, sk);
}

static __always_inline bool was_established(int state)
{
	return state != TCP_SYN_SENT && state != TCP_SYN_RECV && state != TCP_NEW_SYN_RECV && state != TCP_CLOSE;
}

static __always_inline void on_closing(struct sock *sk, int from)
{
	struct tracked *tracked = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (!tracked)
		return;
	if (was_established(from))
		set_established(tracked, sk);
	if (take_attribution(tracked))
		attribute_owner(tracked, sk, bpf_get_current_task_btf(), true);
}

static __always_inline void on_closed(struct sock *sk, int from)
{
	struct tracked *tracked = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (from == TCP_LISTEN) {
		remove_listener(sk);
		if (tracked)
			tracked->state = 0;
		return;
	}
	if (!tracked)
		return;
	if (was_established(from))
		set_established(tracked, sk);
	if (take_attribution(tracked)) {
		// A process that closes with unread data, or without lingering, sends a reset after it shut down both
		// directions. If the peer reset the connection, the shutdown follows later.
		bool is_current = sk->sk_shutdown == 3;
		attribute_owner(tracked, sk, is_current ? bpf_get_current_task_btf() : 0, is_current);
	}
	end_connection(tracked, sk, from);
}

static __always_inline bool is_relevant(struct sock *sk, int to)
{
	bool state = to == TCP_SYN_SENT || to == TCP_LISTEN || to == TCP_ESTABLISHED || to == TCP_FIN_WAIT1 ||
		     to == TCP_LAST_ACK || to == TCP_CLOSE;
	return state && sk->sk_protocol == IPPROTO_TCP;
}

static __always_inline void handle_change(struct sock *sk, int from, int to)
{
	if (to == TCP_SYN_SENT)
		on_connect(sk);
	else if (to == TCP_LISTEN)
		on_listen(sk);
	else if (to == TCP_ESTABLISHED)
		on_established(sk, from);
	else if (to == TCP_CLOSE)
		on_closed(sk, from);
	else
		on_closing(sk, from);
}

// The kernel does not start a program while the same program runs on the same processor, so a state change in an
// interrupt would be missed. The hook therefore exists twice. The first copy records the event that it handles; the
// second runs right after it and handles the event if the first did not. These interrupts do not nest, so one copy is
// always free.
static __always_inline struct handled_event *event_of(struct sock *sk, int to)
{
	__u32 which = ((__u64)sk >> 6 ^ to) % EVENTS;
	return bpf_map_lookup_elem(&handled_events, &which);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state_changed, struct sock *sk, int from, int to)
{
	if (!is_relevant(sk, to))
		return 0;
	struct handled_event *event = event_of(sk, to);
	if (event) {
		event->sk = (__u64)sk;
		event->to = to;
	}
	handle_change(sk, from, to);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state_changed_2, struct sock *sk, int from, int to)
{
	if (!is_relevant(sk, to))
		return 0;
	struct handled_event *event = event_of(sk, to);
	if (event && event->sk == (__u64)sk && event->to == (__u32)to) {
		event->sk = 0;
		return 0;
	}
	handle_change(sk, from, to);
	return 0;
}

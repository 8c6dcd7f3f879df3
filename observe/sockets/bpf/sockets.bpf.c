// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Counts TCP connections in the kernel (Transtracer §3.2 polls /proc instead, and misses what lives between two polls).
//
// One hook, on the change of a TCP socket's state:
//
//   → SYN_SENT              the process that connects is the current one: exact owner, opened
//   → LISTEN                the process that listens is the current one
//   SYN_RECV → ESTABLISHED  in the middle of an interrupt; the current process is a bystander. Remembered as unsettled
//   → FIN_WAIT1, LAST_ACK   the process that closes is the current one, also among prefork workers: settles the owner
//   → CLOSE                 bytes, failures. Still unsettled (a reset): only the listener is known
//
// and a pass over the open files of all processes (pass.h) for what began before us or is held open for long.
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "tables.h"
#include "owner.h"
#include "flow.h"
#include "connection.h"
#include "others.h"
#include "pass.h"

// Tracing programs must be GPL-compatible.
char LICENSE[] SEC("license") = "GPL";

static __always_inline void connecting(struct sock *sk)
{
	struct tracked *it = track(sk);
	if (!it)
		return;
	struct task_struct *task = bpf_get_current_task_btf();
	own(it, task);
	name(it, sk, ACTIVE);
	it->state = 0;
	struct flow_counts *counts = flow(&it->key, task, true);
	if (!counts)
		return;
	COUNT(counts, opened, 1);
	it->state = COUNTED;
}

static __always_inline void listening(struct sock *sk)
{
	struct control *now = controls();
	struct tracked *it = track(sk);
	if (!it || !now)
		return;
	struct task_struct *task = bpf_get_current_task_btf();
	own(it, task);
	it->state = LISTENING;
	capture(task, now->epoch, true);
	enlist(it, sk, (__u64)sk);
}

static __always_inline void established(struct sock *sk, int from)
{
	struct tracked *it = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (!it) {
		// Its listener is older than we are, and no pass has met it yet.
		if (from != TCP_SYN_RECV)
			return;
		it = track(sk);
		if (!it)
			return;
		it->state = LISTENING;
	}
	if (it->state & LISTENING) {
		name(it, sk, PASSIVE);
		it->state = UNSETTLED | ESTABLISHED;
		counter(UNSETTLED_NOW, 1);
	} else if (it->state & COUNTED) {
		struct flow_counts *counts = flow(&it->key, 0, false);
		it->state |= ESTABLISHED;
		if (counts) {
			COUNT(counts, established, 1);
			counts->example_port = port_of_active(it, sk);
		}
	}
}

static __always_inline void closing(struct sock *sk)
{
	struct tracked *it = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (it && unsettled(it))
		settle(it, sk, bpf_get_current_task_btf(), true);
}

static __always_inline void closed(struct sock *sk, int from)
{
	struct tracked *it = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (from == TCP_LISTEN) {
		delist(sk);
		if (it)
			it->state = 0;
		return;
	}
	if (!it)
		return;
	if (unsettled(it)) {
		// A process that closes with data unread, or without lingering, resets: it has shut down both ways before.
		// When the peer resets, that comes after.
		bool itself = sk->sk_shutdown == 3;
		settle(it, sk, itself ? bpf_get_current_task_btf() : 0, itself);
	}
	__u32 before = __sync_fetch_and_or(&it->state, GONE);
	if (!(before & COUNTED) || before & GONE)
		return;
	struct flow_counts *counts = flow(&it->key, 0, false);
	if (counts)
		count_closed(it, sk, from, counts);
}

static __always_inline bool matters(struct sock *sk, int to)
{
	bool state = to == TCP_SYN_SENT || to == TCP_LISTEN || to == TCP_ESTABLISHED || to == TCP_FIN_WAIT1 ||
		     to == TCP_LAST_ACK || to == TCP_CLOSE;
	return state && sk->sk_protocol == IPPROTO_TCP;
}

static __always_inline void change(struct sock *sk, int from, int to)
{
	if (to == TCP_SYN_SENT)
		connecting(sk);
	else if (to == TCP_LISTEN)
		listening(sk);
	else if (to == TCP_ESTABLISHED)
		established(sk, from);
	else if (to == TCP_CLOSE)
		closed(sk, from);
	else
		closing(sk);
}

// The kernel does not run a program while it runs on the same processor: an interrupt that changes other sockets would
// be missed. So the hook exists twice. The first notes what it handles, and the second, which runs right after it,
// handles what the first has not. Interrupts of this kind do not nest, so one of them is always free.
static __always_inline struct note *note_of(struct sock *sk, int to)
{
	__u32 which = ((__u64)sk >> 6 ^ to) % NOTES;
	return bpf_map_lookup_elem(&notes, &which);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state_changed, struct sock *sk, int from, int to)
{
	if (!matters(sk, to))
		return 0;
	struct note *note = note_of(sk, to);
	if (note) {
		note->sk = (__u64)sk;
		note->to = to;
	}
	change(sk, from, to);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state_changed_2, struct sock *sk, int from, int to)
{
	if (!matters(sk, to))
		return 0;
	struct note *note = note_of(sk, to);
	if (note && note->sk == (__u64)sk && note->to == (__u32)to) {
		note->sk = 0;
		return 0;
	}
	change(sk, from, to);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Scans the open files of every process in every network namespace. The scan finds connections and listeners that are
// older than the agent, the processes that hold accepted connections, and the byte counts of long-lived connections. It
// counts TCP directly. Sockets of other protocols have no hook; it writes them to user space (non_tcp.h).
#pragma once

static __always_inline void add_listener(struct tracked *tracked, struct sock *sk, __u64 id)
{
	__u8 unused[16];
	struct listener entry = {
		.start_ns = tracked->key.start_ns,
		.tgid = tracked->key.tgid,
		.netns = sk->__sk_common.skc_net.net->ns.inum,
		.port = sk->__sk_common.skc_num,
		.protocol = IPPROTO_TCP,
	};
	addresses(sk, entry.address, unused);
	if (bpf_map_update_elem(&listeners, &id, &entry, BPF_ANY))
		add_to_counter(LOST_LISTENERS, 1);
	listeners_changed();
}

static __always_inline void remove_listener(struct sock *sk)
{
	__u64 id = (__u64)sk;
	bpf_map_delete_elem(&listeners, &id);
	listeners_changed();
}

// The first process that holds the socket owns it. If that is PID 1, which holds the sockets of the services that it
// starts, a later process replaces it.
static __always_inline void scan_listener(struct tracked *tracked, struct sock *sk, struct task_struct *task,
					  struct control *control, __u64 id)
{
	bool first = tracked->scan != control->scan || !(tracked->state & LISTENING);
	if (!first && tracked->key.tgid != 1)
		return;
	bool same = tracked->key.tgid == (__u32)task->tgid && tracked->key.start_ns == task->group_leader->start_boottime;
	if (same && tracked->state & LISTENING)
		return;
	set_owner(tracked, task);
	tracked->state = LISTENING;
	capture_process(task, control->epoch, false);
	add_listener(tracked, sk, id);
}

static __always_inline void adopt(struct tracked *tracked, struct sock *sk, struct task_struct *task, int state)
{
	// An accepted connection inherits the backlog of its listener; a connecting socket has none.
	set_key(tracked, sk, sk->sk_max_ack_backlog ? PASSIVE : ACTIVE);
	set_owner(tracked, task);
	__u32 epoch = get_epoch();
	struct flow_counts *counts = flow_counts_of(epoch, &tracked->key, task, false);
	if (!counts) {
		__sync_fetch_and_and(&tracked->state, ~CLAIMED);
		return;
	}
	COUNT(counts, adopted, 1);
	mark_counted(tracked, sk, state == TCP_SYN_SENT ? 0 : ESTABLISHED, epoch, counts);
}

static __always_inline void scan_tcp(struct sock *sk, struct task_struct *task, struct control *control)
{
	int state = sk->__sk_common.skc_state;
	if (state == TCP_CLOSE || state == TCP_SYN_RECV || state == TCP_NEW_SYN_RECV || state == TCP_TIME_WAIT)
		return;
	struct tracked *tracked = track(sk);
	if (!tracked)
		return;
	if (state == TCP_LISTEN) {
		scan_listener(tracked, sk, task, control, (__u64)sk);
		tracked->scan = control->scan;
		return;
	}
	if (tracked->scan == control->scan)
		return;
	tracked->scan = control->scan;
	if (state != TCP_SYN_SENT)
		set_established(tracked, sk);
	if (take_attribution(tracked))
		attribute_owner(tracked, sk, task, false);
	else if (!(tracked->state & (COUNTED | UNATTRIBUTED)) && claim(tracked))
		adopt(tracked, sk, task, state);
	if (!(tracked->state & COUNTED) || tracked->state & GONE)
		return;
	struct flow_counts *counts = flow_counts_of(get_epoch(), &tracked->key, task, false);
	if (counts)
		count_bytes(tracked, sk, state, counts);
}

// Go listens on Multipath TCP by default. The process holds the MPTCP socket; the hook fires for the TCP socket below
// it. Only listeners need this: connections that they accept are plain TCP unless the peer also uses Multipath TCP.
static __always_inline void scan_mptcp(struct sock *sk, struct task_struct *task, struct control *control)
{
	if (sk->__sk_common.skc_state != TCP_LISTEN || !bpf_core_field_exists(((struct mptcp_sock *)0)->first))
		return;
	struct sock *below = BPF_CORE_READ((struct mptcp_sock *)sk, first);
	struct tracked *tracked = track(sk);
	if (!tracked)
		return;
	scan_listener(tracked, sk, task, control, (__u64)(below ? below : sk));
	tracked->scan = control->scan;
}

SEC("iter/task_file")
int scan_file(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	if (!task || !file)
		return 0;
	struct socket *socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	struct open_file open = { .seq = ctx->meta->seq, .task = task, .file = file };
	struct sock *sk = socket->sk;
	struct control *control = get_control();
	if (!sk || !control)
		return 0;
	__u16 family = sk->__sk_common.skc_family;
	if ((family == AF_INET || family == AF_INET6) && sk->sk_protocol == IPPROTO_TCP)
		scan_tcp(sk, task, control);
	else if ((family == AF_INET || family == AF_INET6) && sk->sk_protocol == IPPROTO_UDP)
		scan_udp(open, sk, control);
	else if ((family == AF_INET || family == AF_INET6) && sk->sk_protocol == IPPROTO_MPTCP)
		scan_mptcp(sk, task, control);
	else if (family == AF_UNIX)
		scan_unix(open, sk, control);
	return 0;
}

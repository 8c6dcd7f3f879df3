// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// A pass over the open files of every process, in every network namespace: finds connections and listeners that are
// older than we are, who holds accepted connections, and how many bytes long ones have moved. TCP is counted where it
// stands; sockets of other protocols, which have no hook, are written out for user space (others.h).
#pragma once

static __always_inline void enlist(struct tracked *it, struct sock *sk, __u64 id)
{
	__u8 nowhere[16];
	struct listener entry = {
		.start_ns = it->key.start_ns,
		.tgid = it->key.tgid,
		.netns = sk->__sk_common.skc_net.net->ns.inum,
		.port = sk->__sk_common.skc_num,
		.protocol = IPPROTO_TCP,
	};
	addresses(sk, entry.address, nowhere);
	if (bpf_map_update_elem(&listeners, &id, &entry, BPF_ANY))
		counter(LOST_LISTENERS, 1);
	listeners_changed();
}

static __always_inline void delist(struct sock *sk)
{
	__u64 id = (__u64)sk;
	bpf_map_delete_elem(&listeners, &id);
	listeners_changed();
}

// Of several processes that hold it, the first, unless that is the one that starts services and keeps their sockets.
static __always_inline void visit_listener(struct tracked *it, struct sock *sk, struct task_struct *task,
					   struct control *now, __u64 id)
{
	bool first = it->pass != now->pass || !(it->state & LISTENING);
	if (!first && it->key.tgid != 1)
		return;
	bool same = it->key.tgid == (__u32)task->tgid && it->key.start_ns == task->group_leader->start_boottime;
	if (same && it->state & LISTENING)
		return;
	own(it, task);
	it->state = LISTENING;
	capture(task, now->epoch, false);
	enlist(it, sk, id);
}

static __always_inline void adopt(struct tracked *it, struct sock *sk, struct task_struct *task, int state)
{
	// Connections inherit the backlog of their listener; sockets that connect have none.
	name(it, sk, sk->sk_max_ack_backlog ? PASSIVE : ACTIVE);
	own(it, task);
	struct flow_counts *counts = flow(&it->key, task, false);
	if (!counts)
		return;
	COUNT(counts, adopted, 1);
	counted(it, sk, state == TCP_SYN_SENT ? 0 : ESTABLISHED, counts);
}

static __always_inline void visit_tcp(struct sock *sk, struct task_struct *task, struct control *now)
{
	int state = sk->__sk_common.skc_state;
	if (state == TCP_CLOSE || state == TCP_SYN_RECV || state == TCP_NEW_SYN_RECV || state == TCP_TIME_WAIT)
		return;
	struct tracked *it = track(sk);
	if (!it)
		return;
	if (state == TCP_LISTEN) {
		visit_listener(it, sk, task, now, (__u64)sk);
		it->pass = now->pass;
		return;
	}
	if (it->pass == now->pass)
		return;
	it->pass = now->pass;
	if (unsettled(it))
		settle(it, sk, task, false);
	else if (!(it->state & COUNTED))
		adopt(it, sk, task, state);
	if (!(it->state & COUNTED) || it->state & GONE)
		return;
	struct flow_counts *counts = flow(&it->key, task, false);
	if (counts)
		bytes(it, sk, state, counts);
}

// Go listens by Multipath TCP unless it is told not to. The hook sees the TCP socket below; a process holds the one above, and
// only listeners stay that way: what they accept is plain TCP, unless the other side speaks it as well.
static __always_inline void visit_mptcp(struct sock *sk, struct task_struct *task, struct control *now)
{
	if (sk->__sk_common.skc_state != TCP_LISTEN || !bpf_core_field_exists(((struct mptcp_sock *)0)->first))
		return;
	struct sock *below = BPF_CORE_READ((struct mptcp_sock *)sk, first);
	struct tracked *it = track(sk);
	if (!it)
		return;
	visit_listener(it, sk, task, now, (__u64)(below ? below : sk));
	it->pass = now->pass;
}

SEC("iter/task_file")
int visit_file(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	if (!task || !file)
		return 0;
	struct socket *socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	struct visit at = { .seq = ctx->meta->seq, .task = task, .file = file };
	struct sock *sk = socket->sk;
	struct control *now = controls();
	if (!sk || !now)
		return 0;
	__u16 family = sk->__sk_common.skc_family;
	if ((family == AF_INET || family == AF_INET6) && sk->sk_protocol == IPPROTO_TCP)
		visit_tcp(sk, task, now);
	else if ((family == AF_INET || family == AF_INET6) && sk->sk_protocol == IPPROTO_UDP)
		visit_udp(at, sk, now);
	else if ((family == AF_INET || family == AF_INET6) && sk->sk_protocol == IPPROTO_MPTCP)
		visit_mptcp(sk, task, now);
	else if (family == AF_UNIX)
		visit_unix(at, sk, now);
	return 0;
}

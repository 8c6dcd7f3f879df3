// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// One end of a TCP connection: its owner, its flow key and its byte counts.
#pragma once

static __always_inline void addresses(struct sock *sk, __u8 *local, __u8 *remote)
{
	__u32 *to_local = (__u32 *)local, *to_remote = (__u32 *)remote;
	if (sk->__sk_common.skc_family == AF_INET6) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			to_local[i] = sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			to_remote[i] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[i];
		}
	} else {
		to_local[0] = to_local[1] = to_remote[0] = to_remote[1] = 0;
		to_local[2] = to_remote[2] = bpf_htonl(0xffff);
		to_local[3] = sk->__sk_common.skc_rcv_saddr;
		to_remote[3] = sk->__sk_common.skc_daddr;
	}
}

static __always_inline void set_key(struct tracked *tracked, struct sock *sk, __u8 side)
{
	struct flow_key *key = &tracked->key;
	key->netns = sk->__sk_common.skc_net.net->ns.inum;
	key->protocol = IPPROTO_TCP;
	key->side = side;
	key->attribution = EXACT;
	if (side == ACTIVE) {
		key->port = bpf_ntohs(sk->__sk_common.skc_dport);
		addresses(sk, key->active, key->passive);
	} else {
		key->port = sk->__sk_common.skc_num;
		addresses(sk, key->passive, key->active);
	}
	tracked->sent = tracked->received = 0;
}

static __always_inline __u32 active_port(struct tracked *tracked, struct sock *sk)
{
	return tracked->key.side == ACTIVE ? sk->__sk_common.skc_num : bpf_ntohs(sk->__sk_common.skc_dport);
}

static __always_inline void set_owner(struct tracked *tracked, struct task_struct *task)
{
	tracked->key.start_ns = task->group_leader->start_boottime;
	tracked->key.tgid = task->tgid;
}

#define SOCK_DONE 2 // bit 1 of sk_flags: the peer's FIN was received

// The kernel counts sequence numbers. The SYN of the active end and both FINs take one each and carry no payload.
static __always_inline void count_bytes(struct tracked *tracked, struct sock *sk, int state, struct flow_counts *counts)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp || !(tracked->state & ESTABLISHED))
		return;
	__u64 sent = tcp->bytes_acked, received = tcp->bytes_received;
	if (tracked->key.side == ACTIVE && sent)
		sent--;
	bool fin_sent = state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 || state == TCP_CLOSING || state == TCP_LAST_ACK;
	if (fin_sent && sent && tcp->snd_una == tcp->write_seq)
		sent--;
	if (sk->__sk_common.skc_flags & SOCK_DONE && received)
		received--;
	if (sent > tracked->sent) {
		COUNT(counts, sent, sent - tracked->sent);
		tracked->sent = sent;
	}
	if (received > tracked->received) {
		COUNT(counts, received, received - tracked->received);
		tracked->received = received;
	}
}

// Returns true for the one caller that may count the connection. The hook and a file scan can race for it.
static __always_inline bool claim(struct tracked *tracked)
{
	return !(tracked->state & CLAIMED) && !(__sync_fetch_and_or(&tracked->state, CLAIMED) & CLAIMED);
}

static __always_inline bool take_attribution(struct tracked *tracked)
{
	if (!(tracked->state & UNATTRIBUTED) || !claim(tracked))
		return false;
	__sync_fetch_and_and(&tracked->state, ~UNATTRIBUTED);
	add_to_counter(UNATTRIBUTED_NOW, -1);
	return true;
}

// Called at each event that only an established connection can have, because the kernel may have skipped the hook at
// the event itself.
static __always_inline void set_established(struct tracked *tracked, struct sock *sk)
{
	__u32 state = tracked->state;
	if (state & LISTENING) {
		// Another program that claimed it does the same.
		if (!claim(tracked))
			return;
		set_key(tracked, sk, PASSIVE);
		add_to_counter(UNATTRIBUTED_NOW, 1);
		__sync_fetch_and_or(&tracked->state, UNATTRIBUTED | ESTABLISHED);
		__sync_fetch_and_and(&tracked->state, ~(LISTENING | CLAIMED));
	} else if (state & COUNTED && !(state & ESTABLISHED)) {
		if (__sync_fetch_and_or(&tracked->state, ESTABLISHED) & ESTABLISHED)
			return;
		struct flow_counts *counts = flow_counts_of(get_epoch(), &tracked->key, 0, false);
		if (counts) {
			COUNT(counts, established, 1);
			counts->example_port = active_port(tracked, sk);
		}
	}
}

static __always_inline void count_closed(struct tracked *tracked, struct sock *sk, int from, struct flow_counts *counts)
{
	if (tracked->state & ESTABLISHED)
		COUNT(counts, closed, 1);
	else
		COUNT(counts, failed, 1);
	count_bytes(tracked, sk, from, counts);
}

// Counts the end of a connection once.
static __always_inline bool end_connection(struct tracked *tracked, struct sock *sk, int from)
{
	__u32 before = __sync_fetch_and_or(&tracked->state, GONE);
	if (!(before & COUNTED) || before & GONE)
		return false;
	__u32 epoch = get_epoch();
	struct flow_counts *counts = flow_counts_of(epoch, &tracked->key, 0, false);
	if (!counts)
		return false;
	count_closed(tracked, sk, from, counts);
	if (!(before & compared_flag(epoch)))
		COUNT(counts, ended, 1);
	return true;
}

// Marks the connection so that its end is counted. If it ended while a file scan was counting it, counts the end here.
static __always_inline void mark_counted(struct tracked *tracked, struct sock *sk, __u32 also, __u32 epoch,
					 struct flow_counts *counts)
{
	counts->example_port = active_port(tracked, sk);
	if (__sync_fetch_and_or(&tracked->state, COUNTED | also | compared_flag(epoch)) & GONE)
		count_closed(tracked, sk, TCP_ESTABLISHED, counts);
}

// Counts a passive end once its attribution is final.
static __always_inline void attribute_owner(struct tracked *tracked, struct sock *sk, struct task_struct *task,
					    bool is_current)
{
	if (task)
		set_owner(tracked, task);
	else
		tracked->key.attribution = tracked->key.tgid ? LISTENER : NOBODY;
	__u32 epoch = get_epoch();
	struct flow_counts *counts = flow_counts_of(epoch, &tracked->key, task, is_current);
	if (!counts) {
		__sync_fetch_and_and(&tracked->state, ~CLAIMED);
		return;
	}
	COUNT(counts, opened, 1);
	COUNT(counts, established, 1);
	mark_counted(tracked, sk, 0, epoch, counts);
}

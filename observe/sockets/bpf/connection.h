// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// A TCP connection as one of its ends: whose it is, what it is called, how many bytes it moved.
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

static __always_inline void name(struct tracked *it, struct sock *sk, __u8 side)
{
	struct flow_key *key = &it->key;
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
	it->sent = it->received = 0;
}

static __always_inline __u32 port_of_active(struct tracked *it, struct sock *sk)
{
	return it->key.side == ACTIVE ? sk->__sk_common.skc_num : bpf_ntohs(sk->__sk_common.skc_dport);
}

static __always_inline void own(struct tracked *it, struct task_struct *task)
{
	it->key.start_ns = task->group_leader->start_boottime;
	it->key.tgid = task->tgid;
}

#define SOCK_DONE 2 // bit 1 of sk_flags: the peer's FIN was received

// The kernel counts sequence numbers: the active end's SYN and both FINs are one each, and no payload.
static __always_inline void bytes(struct tracked *it, struct sock *sk, int state, struct flow_counts *counts)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp || !(it->state & ESTABLISHED))
		return;
	__u64 sent = tcp->bytes_acked, received = tcp->bytes_received;
	if (it->key.side == ACTIVE && sent)
		sent--;
	bool fin_sent = state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 || state == TCP_CLOSING || state == TCP_LAST_ACK;
	if (fin_sent && sent && tcp->snd_una == tcp->write_seq)
		sent--;
	if (sk->__sk_common.skc_flags & SOCK_DONE && received)
		received--;
	if (sent > it->sent) {
		COUNT(counts, sent, sent - it->sent);
		it->sent = sent;
	}
	if (received > it->received) {
		COUNT(counts, received, received - it->received);
		it->received = received;
	}
}

// Takes the right to settle it: the hook and a pass may both want to.
static __always_inline bool unsettled(struct tracked *it)
{
	if (!(it->state & UNSETTLED) || !(__sync_fetch_and_and(&it->state, ~UNSETTLED) & UNSETTLED))
		return false;
	counter(UNSETTLED_NOW, -1);
	return true;
}

static __always_inline void count_closed(struct tracked *it, struct sock *sk, int from, struct flow_counts *counts)
{
	if (it->state & ESTABLISHED)
		COUNT(counts, closed, 1);
	else
		COUNT(counts, failed, 1);
	bytes(it, sk, from, counts);
}

// From now on its closing is counted; by us, if it closed while a pass was counting it.
static __always_inline void counted(struct tracked *it, struct sock *sk, __u32 also, struct flow_counts *counts)
{
	counts->example_port = port_of_active(it, sk);
	if (__sync_fetch_and_or(&it->state, COUNTED | also) & GONE)
		count_closed(it, sk, TCP_ESTABLISHED, counts);
}

// A passive end whose owner is now known, as well as it ever will be: only now it is counted.
static __always_inline void settle(struct tracked *it, struct sock *sk, struct task_struct *task, bool itself)
{
	if (task)
		own(it, task);
	else
		it->key.attribution = it->key.tgid ? LISTENER : NOBODY;
	struct flow_counts *counts = flow(&it->key, task, itself);
	if (!counts)
		return;
	COUNT(counts, opened, 1);
	COUNT(counts, established, 1);
	counted(it, sk, 0, counts);
}

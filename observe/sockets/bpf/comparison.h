// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Compares the open connections of the flow table with the sockets that exist.
//
// The hook does not see every end. Some kernels do not run tracing programs while a protected task is the current one,
// also if an interrupt handles the packets of another, and do not count that. The connection would stay open forever.
//
// User space begins a comparison by switching the epoch, and reads the table of the old epoch: the connections that are
// open at this moment. Then this program visits every socket that has state. Each of these connections is one of:
//
//   visited while open            `compared`; COMPARED_* keeps its later end out of `ended`
//   ended before it was visited   `ended`
//   neither                       the socket is gone, and no hook saw its end: user space counts it as closed unseen
//
// Connections that are counted after the comparison began have COMPARED_* from the start.
#pragma once

SEC("iter/bpf_sk_storage_map")
int compare_sockets(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;
	if (!sk || !ctx->value)
		return 0;
	struct tracked *tracked = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (!tracked || !(tracked->state & COUNTED))
		return 0;
	// A process still holds the socket of a connection whose end was not seen. Before it is established, its state can
	// also be CLOSE because it is just being opened.
	if (sk->__sk_common.skc_state == TCP_CLOSE && tracked->state & ESTABLISHED) {
		if (end_connection(tracked, sk, TCP_CLOSE))
			add_to_counter(CLOSED_UNSEEN, 1);
		return 0;
	}
	__u32 epoch = get_epoch();
	__u32 flag = compared_flag(epoch);
	__u32 before = __sync_fetch_and_or(&tracked->state, flag);
	__sync_fetch_and_and(&tracked->state, ~((COMPARED_EVEN | COMPARED_ODD) ^ flag));
	if (before & (GONE | flag))
		return 0;
	struct flow_counts *counts = flow_counts_of(epoch, &tracked->key, 0, false);
	if (counts)
		COUNT(counts, compared, 1);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Counting in the table of flows.
#pragma once

static __always_inline struct flow_counts *find(__u32 epoch, struct flow_key *key)
{
	return epoch & 1 ? bpf_map_lookup_elem(&flows_odd, key) : bpf_map_lookup_elem(&flows_even, key);
}

static __noinline struct flow_counts *insert(struct control *now, __u32 epoch, struct flow_key *key)
{
	struct flow_counts none = {};
	__u32 zero = 0;
	struct tally *it = bpf_map_lookup_elem(&tally, &zero);
	if (epoch & 1)
		bpf_map_update_elem(&flows_odd, key, &none, BPF_NOEXIST);
	else
		bpf_map_update_elem(&flows_even, key, &none, BPF_NOEXIST);
	if (it && __sync_fetch_and_add(&it->inserted, 1) == now->wake_at)
		bpf_ringbuf_output(&wake, &epoch, sizeof(epoch), 0);
	return find(epoch, key);
}

// The counts of a key, or none if the table is full. `task` is the owner where its memory can be asked for who it is:
// in its own context (`itself`), or during a pass.
static __always_inline struct flow_counts *flow(struct flow_key *key, struct task_struct *task, bool itself)
{
	struct control *now = controls();
	if (!now)
		return 0;
	__u32 epoch = now->epoch;
	struct flow_counts *counts = find(epoch, key);
	if (counts)
		return counts;
	if (task)
		capture(task, epoch, itself);
	counts = insert(now, epoch, key);
	if (!counts)
		counter(LOST_FLOWS, 1);
	return counts;
}

#define COUNT(counts, what, by) __sync_fetch_and_add(&(counts)->what, by)

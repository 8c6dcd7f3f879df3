// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Adds counts to the flow table.
#pragma once

static __always_inline struct flow_counts *find_flow(__u32 epoch, struct flow_key *key)
{
	return epoch & 1 ? bpf_map_lookup_elem(&flows_odd, key) : bpf_map_lookup_elem(&flows_even, key);
}

static __noinline struct flow_counts *insert_flow(__u32 epoch, struct flow_key *key)
{
	struct flow_counts none = {};
	__u32 zero = 0;
	struct tally *counts = bpf_map_lookup_elem(&tally, &zero);
	struct control *control = get_control();
	if (epoch & 1)
		bpf_map_update_elem(&flows_odd, key, &none, BPF_NOEXIST);
	else
		bpf_map_update_elem(&flows_even, key, &none, BPF_NOEXIST);
	if (counts && control && __sync_fetch_and_add(&counts->inserted, 1) == control->wake_at)
		bpf_ringbuf_output(&wake, &epoch, sizeof(epoch), 0);
	return find_flow(epoch, key);
}

// Returns the counts of a key, or NULL if the table is full. `task` is the owner if it can be described now: it is the
// current process (`is_current`), or a file scan found it.
static __always_inline struct flow_counts *flow_counts_of(__u32 epoch, struct flow_key *key, struct task_struct *task,
							  bool is_current)
{
	struct flow_counts *counts = find_flow(epoch, key);
	if (counts)
		return counts;
	if (task)
		capture_process(task, epoch, is_current);
	counts = insert_flow(epoch, key);
	if (!counts)
		add_to_counter(LOST_FLOWS, 1);
	return counts;
}

#define COUNT(counts, what, by) __sync_fetch_and_add(&(counts)->what, by)

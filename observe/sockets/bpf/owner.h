// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Describes the process that owns a socket. Captured once per epoch, when the process first appears in the flow table.
#pragma once

static __always_inline struct task_id task_id_of(struct task_struct *task)
{
	struct task_id owner = { .start_ns = task->group_leader->start_boottime, .tgid = task->tgid };
	return owner;
}

static __always_inline void *find_process(__u32 epoch, struct task_id *owner)
{
	return epoch & 1 ? bpf_map_lookup_elem(&processes_odd, owner) : bpf_map_lookup_elem(&processes_even, owner);
}

// Arguments can be read only in the context of the process. A process that a file scan finds is alive, so user space
// reads its arguments from /proc.
static __noinline void capture_process(struct task_struct *task, __u32 epoch, bool is_current)
{
	struct task_id owner = task_id_of(task);
	if (find_process(epoch, &owner))
		return;
	__u32 which = !is_current;
	struct process *process = bpf_map_lookup_elem(&scratch, &which);
	if (!process)
		return;
	process->cgroup = task->cgroups->dfl_cgrp->kn->id;
	process->executable[0] = 0;
	process->arguments_len = 0;
	bpf_probe_read_kernel_str(process->comm, sizeof(process->comm), task->group_leader->comm);
	struct mm_struct *mm = task->mm;
	if (mm) {
		const void *name = mm->exe_file->f_path.dentry->d_name.name;
		bpf_probe_read_kernel_str(process->executable, sizeof(process->executable), name);
	}
	if (mm && is_current) {
		unsigned long start = mm->arg_start;
		unsigned long len = mm->arg_end - start;
		if (len > sizeof(process->arguments))
			len = sizeof(process->arguments);
		if (!bpf_probe_read_user(process->arguments, len, (void *)start))
			process->arguments_len = len;
	}
	long error = epoch & 1 ? bpf_map_update_elem(&processes_odd, &owner, process, BPF_ANY)
			       : bpf_map_update_elem(&processes_even, &owner, process, BPF_ANY);
	if (error)
		add_to_counter(LOST_PROCESSES, 1);
}

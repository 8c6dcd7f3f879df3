// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Who a process is: captured once per epoch and process, when it first appears in the table of flows.
#pragma once

static __always_inline struct instance instance_of(struct task_struct *task)
{
	struct instance owner = { .start_ns = task->group_leader->start_boottime, .tgid = task->tgid };
	return owner;
}

static __always_inline void *process_known(__u32 epoch, struct instance *owner)
{
	return epoch & 1 ? bpf_map_lookup_elem(&processes_odd, owner) : bpf_map_lookup_elem(&processes_even, owner);
}

// Arguments can only be read from the process itself; one that a pass finds still lives, and /proc has them.
static __noinline void capture(struct task_struct *task, __u32 epoch, bool itself)
{
	struct instance owner = instance_of(task);
	if (process_known(epoch, &owner))
		return;
	__u32 which = !itself;
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
	if (mm && itself) {
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
		counter(LOST_PROCESSES, 1);
}

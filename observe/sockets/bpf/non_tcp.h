// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// UDP and Unix sockets found by a file scan. There is no hook for their connects, so sockets that live between two
// scans are missed. User space compares consecutive scans to find what was opened and closed.
#pragma once

enum { LISTENS = 0 };

struct scanned_socket {
	__u64 inode;
	__u64 start_ns;
	__u32 tgid;
	__u32 netns;
	__u8 active[16];
	__u8 passive[16]; // for a listener, its address
	__u16 port;
	__u16 example_port;
	__u8 protocol; // IPPROTO_UDP, or 0: Unix
	__u8 side;     // or LISTENS
	__u8 path_len;
	__u8 zero;
	char path[112]; // abstract names begin with NUL
};

// An open file and the process that holds it.
struct open_file {
	struct seq_file *seq;
	struct task_struct *task;
	struct file *file;
};

static __always_inline void write_socket(struct open_file open, struct sock *sk, struct control *control,
					 struct scanned_socket *scanned)
{
	struct task_struct *task = open.task;
	scanned->inode = open.file->f_inode->i_ino;
	scanned->start_ns = task->group_leader->start_boottime;
	scanned->tgid = task->tgid;
	scanned->netns = sk->__sk_common.skc_net.net->ns.inum;
	capture_process(task, control->epoch, false);
	bpf_seq_write(open.seq, scanned, sizeof(*scanned));
}

#define BOUND_PORT 8 // in sk_userlocks: the program chose the port

static __always_inline void scan_udp(struct open_file open, struct sock *sk, struct control *control)
{
	struct scanned_socket scanned = { .protocol = IPPROTO_UDP };
	__u16 local = sk->__sk_common.skc_num;
	__u16 remote = bpf_ntohs(sk->__sk_common.skc_dport);
	bool bound = BPF_CORE_READ_BITFIELD_PROBED(sk, sk_userlocks) & BOUND_PORT;
	if (sk->__sk_common.skc_state == TCP_ESTABLISHED) {
		// Both ends may have chosen their ports; servers usually have the lower one.
		scanned.side = bound && local < remote ? PASSIVE : ACTIVE;
	} else if (bound) {
		scanned.side = LISTENS;
	} else {
		return; // unconnected sender
	}
	if (scanned.side == ACTIVE) {
		scanned.port = remote;
		scanned.example_port = local;
		addresses(sk, scanned.active, scanned.passive);
	} else {
		scanned.port = local;
		scanned.example_port = remote;
		addresses(sk, scanned.passive, scanned.active);
	}
	write_socket(open, sk, control, &scanned);
}

static __always_inline bool path_of(struct unix_address *address, struct scanned_socket *scanned)
{
	int len = BPF_CORE_READ(address, len) - (int)__builtin_offsetof(struct sockaddr_un, sun_path);
	if (!address || len <= 0 || len > 108)
		return false;
	const char *path = (const char *)__builtin_preserve_access_index(&address->name) +
			   __builtin_offsetof(struct sockaddr_un, sun_path);
	scanned->path_len = len;
	return !bpf_probe_read_kernel(scanned->path, len, path);
}

static __always_inline void scan_unix(struct open_file open, struct sock *sk, struct control *control)
{
	struct scanned_socket scanned = {};
	struct unix_sock *end = (struct unix_sock *)sk;
	struct unix_address *address = BPF_CORE_READ(end, addr);
	struct unix_sock *peer = (struct unix_sock *)BPF_CORE_READ(end, peer);
	struct unix_address *other = peer ? BPF_CORE_READ(peer, addr) : 0;
	bool connects = sk->sk_type == SOCK_STREAM || sk->sk_type == SOCK_SEQPACKET;
	if (peer) {
		// An accepted socket shares the address of its listener; a client rarely has one.
		bool accepted = connects && address && (!other || BPF_CORE_READ(address, refcnt.refs.counter) > 1);
		scanned.side = accepted ? PASSIVE : ACTIVE;
		if (!accepted)
			address = other;
	} else if (connects && sk->__sk_common.skc_state != TCP_LISTEN) {
		return;
	}
	if (path_of(address, &scanned))
		write_socket(open, sk, control, &scanned);
}

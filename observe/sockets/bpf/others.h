// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// UDP and Unix sockets, as a pass finds them. Nothing tells when they connect, so those that live between two passes are
// missed, and user space finds what opened and closed by comparing a pass with the one before.
#pragma once

enum { LISTENS = 0 };

struct seen {
	__u64 inode;
	__u64 start_ns;
	__u32 tgid;
	__u32 netns;
	__u8 active[16];
	__u8 passive[16]; // where, if it listens
	__u16 port;
	__u16 example_port;
	__u8 protocol; // IPPROTO_UDP, or 0: Unix
	__u8 side;     // or LISTENS
	__u8 path_len;
	__u8 zero;
	char path[112]; // abstract names begin with NUL
};

// An open file, and whose it is.
struct visit {
	struct seq_file *seq;
	struct task_struct *task;
	struct file *file;
};

static __always_inline void write_out(struct visit at, struct sock *sk, struct control *now, struct seen *it)
{
	struct task_struct *task = at.task;
	it->inode = at.file->f_inode->i_ino;
	it->start_ns = task->group_leader->start_boottime;
	it->tgid = task->tgid;
	it->netns = sk->__sk_common.skc_net.net->ns.inum;
	capture(task, now->epoch, false);
	bpf_seq_write(at.seq, it, sizeof(*it));
}

#define BOUND_PORT 8 // of sk_userlocks: the port was asked for

static __always_inline void visit_udp(struct visit at, struct sock *sk, struct control *now)
{
	struct seen it = { .protocol = IPPROTO_UDP };
	__u16 local = sk->__sk_common.skc_num;
	__u16 remote = bpf_ntohs(sk->__sk_common.skc_dport);
	bool bound = BPF_CORE_READ_BITFIELD_PROBED(sk, sk_userlocks) & BOUND_PORT;
	if (sk->__sk_common.skc_state == TCP_ESTABLISHED) {
		// Either end may have asked for its port; servers use the lower one.
		it.side = bound && local < remote ? PASSIVE : ACTIVE;
	} else if (bound) {
		it.side = LISTENS;
	} else {
		return; // sends here and there without a connection
	}
	if (it.side == ACTIVE) {
		it.port = remote;
		it.example_port = local;
		addresses(sk, it.active, it.passive);
	} else {
		it.port = local;
		it.example_port = remote;
		addresses(sk, it.passive, it.active);
	}
	write_out(at, sk, now, &it);
}

static __always_inline bool path_of(struct unix_address *address, struct seen *it)
{
	int len = BPF_CORE_READ(address, len) - (int)__builtin_offsetof(struct sockaddr_un, sun_path);
	if (!address || len <= 0 || len > 108)
		return false;
	const char *path = (const char *)__builtin_preserve_access_index(&address->name) +
			   __builtin_offsetof(struct sockaddr_un, sun_path);
	it->path_len = len;
	return !bpf_probe_read_kernel(it->path, len, path);
}

static __always_inline void visit_unix(struct visit at, struct sock *sk, struct control *now)
{
	struct seen it = {};
	struct unix_sock *end = (struct unix_sock *)sk;
	struct unix_address *address = BPF_CORE_READ(end, addr);
	struct unix_sock *peer = (struct unix_sock *)BPF_CORE_READ(end, peer);
	struct unix_address *other = peer ? BPF_CORE_READ(peer, addr) : 0;
	bool connects = sk->sk_type == SOCK_STREAM || sk->sk_type == SOCK_SEQPACKET;
	if (peer) {
		// An accepted socket shares the address of its listener; a client rarely has one.
		bool accepted = connects && address && (!other || BPF_CORE_READ(address, refcnt.refs.counter) > 1);
		it.side = accepted ? PASSIVE : ACTIVE;
		if (!accepted)
			address = other;
	} else if (connects && sk->__sk_common.skc_state != TCP_LISTEN) {
		return;
	}
	if (path_of(address, &it))
		write_out(at, sk, now, &it);
}

// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The parts of the kernel's types that we read. Offsets are filled in at load time from the running kernel's BTF, so
// neither a full vmlinux.h nor the order of members matters here, only their names.
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16, __sum16;
typedef __u32 __be32, __wsum;
typedef _Bool bool;
enum { false, true };

#define RELOCATED __attribute__((preserve_access_index))

enum { BPF_ANY, BPF_NOEXIST, BPF_EXIST };
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_F_NO_PREALLOC = 1, BPF_F_CLONE = 1 << 9, BPF_SK_STORAGE_GET_F_CREATE = 1 };

enum { AF_UNIX = 1, AF_INET = 2, AF_INET6 = 10 };
enum { SOCK_STREAM = 1, SOCK_SEQPACKET = 5 };
enum { IPPROTO_TCP = 6, IPPROTO_UDP = 17, IPPROTO_MPTCP = 262 };
enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT,
	TCP_SYN_RECV,
	TCP_FIN_WAIT1,
	TCP_FIN_WAIT2,
	TCP_TIME_WAIT,
	TCP_CLOSE,
	TCP_CLOSE_WAIT,
	TCP_LAST_ACK,
	TCP_LISTEN,
	TCP_CLOSING,
	TCP_NEW_SYN_RECV,
};

struct ns_common {
	__u32 inum;
} RELOCATED;
struct net {
	struct ns_common ns;
} RELOCATED;
typedef struct {
	struct net *net;
} possible_net_t;
struct in6_addr {
	union {
		__u32 u6_addr32[4];
	} in6_u;
} RELOCATED;

struct sock_common {
	__be32 skc_daddr, skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	__u16 skc_family;
	volatile __u8 skc_state;
	unsigned long skc_flags;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
} RELOCATED;
struct socket;
struct sock {
	struct sock_common __sk_common;
	__u16 sk_type, sk_protocol;
	__u8 sk_shutdown, sk_userlocks;
	__u32 sk_max_ack_backlog;
	struct socket *sk_socket;
} RELOCATED;
struct tcp_sock {
	__u64 bytes_received, bytes_acked;
	__u32 snd_una, write_seq;
} RELOCATED;

struct sockaddr_un {
	__u16 sun_family;
	char sun_path[108];
};
typedef struct {
	int counter;
} atomic_t;
typedef struct refcount_struct {
	atomic_t refs;
} refcount_t;
struct unix_address {
	refcount_t refcnt;
	int len;
	struct sockaddr_un name[0];
} RELOCATED;
// Multipath TCP: `first` is the first of the TCP sockets below the socket that a program holds.
struct mptcp_sock {
	struct sock *first;
} RELOCATED;

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
} RELOCATED;

struct qstr {
	const unsigned char *name;
} RELOCATED;
struct dentry {
	struct qstr d_name;
} RELOCATED;
struct path {
	struct dentry *dentry;
} RELOCATED;
struct inode {
	unsigned long i_ino;
} RELOCATED;
struct file {
	struct path f_path;
	struct inode *f_inode;
} RELOCATED;
struct socket {
	struct sock *sk;
} RELOCATED;

struct mm_struct {
	unsigned long arg_start, arg_end;
	struct file *exe_file;
} RELOCATED;
struct kernfs_node {
	__u64 id;
} RELOCATED;
struct cgroup {
	struct kernfs_node *kn;
} RELOCATED;
struct css_set {
	struct cgroup *dfl_cgrp;
} RELOCATED;
struct task_struct {
	int tgid;
	char comm[16];
	__u64 start_boottime;
	struct task_struct *group_leader;
	struct mm_struct *mm;
	struct css_set *cgroups;
} RELOCATED;

struct seq_file;
struct bpf_map;
struct bpf_iter_meta {
	struct seq_file *seq;
} RELOCATED;
struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct file *file;
} RELOCATED;
struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
} RELOCATED;

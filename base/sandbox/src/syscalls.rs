//! Which system calls of a program are denied, unknown, or decided by the supervisor.

use crate::tracee::{Pid, Registers, Tracee};
use crate::virtual_host::with_real_ids;
use libc::c_long;
use std::io;

/// A kind of call before which a program stops with `PTRACE_EVENT_SECCOMP`, for the supervisor to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum TracedCall {
    /// Sends a signal.
    Signal = 1,
    /// Starts a process. Threads are permitted without a stop.
    Fork = 2,
    /// Becomes another program.
    Exec = 3,
    /// Has a result that differs from run to run: see [`crate::VirtualHost`].
    Answered = 4,
}

impl TracedCall {
    /// Reads the event's message.
    pub fn from_message(message: u64) -> Option<TracedCall> {
        [TracedCall::Signal, TracedCall::Fork, TracedCall::Exec, TracedCall::Answered]
            .into_iter()
            .find(|&traced| message == traced as u64)
    }
}

/// Whether the signal that a stopped `thread` of `process` is about to send goes to that process only. The process may
/// name itself by its virtual id, which is then replaced by the real one.
pub fn signals_itself(tracee: &Tracee, process: Pid) -> io::Result<bool> {
    let registers = with_real_ids(&tracee.registers()?, process);
    let permitted = is_to_itself(&registers, process, tracee.pid);
    if permitted {
        tracee.set_registers(&registers)?;
    }
    Ok(permitted)
}

fn is_to_itself(registers: &Registers, process: Pid, thread: Pid) -> bool {
    // the kernel uses 32 bits
    let target = registers.rdi as Pid;
    match registers.orig_rax as c_long {
        // 0 and negative numbers are process groups
        libc::SYS_kill | libc::SYS_rt_sigqueueinfo | libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => {
            target == process
        }
        // names a thread without its process
        libc::SYS_tkill => target == process || target == thread,
        _ => false,
    }
}

/// Makes the call before which `tracee` is stopped fail with `EPERM`. The caller resumes it as usual.
pub fn deny(tracee: &Tracee) -> io::Result<()> {
    let registers = tracee.registers()?;
    // no call has this number: the kernel skips it and keeps rax
    tracee.set_registers(&Registers { orig_rax: u64::MAX, rax: -i64::from(libc::EPERM) as u64, ..registers })
}

/// Calls that fail with `EPERM`.
pub(super) const DENIED: &[c_long] = &[
    // other processes
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kcmp,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // mounts and namespaces
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_setns,
    libc::SYS_unshare,
    // the machine
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_fanotify_init,
    // parts of the kernel that are reached by other means than calls, or have allowed escapes before
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_modify_ldt,
];

/// Calls that fail with `ENOSYS`.
pub(super) const UNKNOWN: &[c_long] = &[libc::SYS_clone3, libc::SYS_rseq];

/// The newest call that was reviewed; later ones are unknown.
pub(super) const LAST: c_long = libc::SYS_mseal;

/// Calls that stop for the supervisor.
pub(super) const TRACED: &[(c_long, TracedCall)] = &[
    (libc::SYS_kill, TracedCall::Signal),
    (libc::SYS_tkill, TracedCall::Signal),
    (libc::SYS_tgkill, TracedCall::Signal),
    (libc::SYS_rt_sigqueueinfo, TracedCall::Signal),
    (libc::SYS_rt_tgsigqueueinfo, TracedCall::Signal),
    (libc::SYS_fork, TracedCall::Fork),
    (libc::SYS_vfork, TracedCall::Fork),
    (libc::SYS_execve, TracedCall::Exec),
    (libc::SYS_execveat, TracedCall::Exec),
];

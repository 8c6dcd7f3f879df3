//! Determines the container, pod or systemd unit from the path of a cgroup.
//!
//! Runtimes name the cgroup after the container's id of 64 hexadecimal digits, some with a prefix and `.scope`:
//!
//! ```text
//! /system.slice/docker-ID.scope                  docker, with systemd
//! /docker/ID                                     docker, without
//! /kubepods.slice/…/kubepods-burstable-podUID.slice/cri-containerd-ID.scope
//! /kubepods/burstable/podUID/ID                  Kubernetes, without systemd
//! /machine.slice/libpod-ID.scope/container       podman
//! /system.slice/nginx.service                    a unit
//! /user.slice/user-1000.slice/user@1000.service/app.slice/sync.service
//! ```
//!
//! A login session, a terminal tab or a transient unit with a random name is not a service: its processes are
//! identified by their program.

/// What a cgroup belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Membership {
    Container {
        id: String,
        pod: Option<String>,
    },
    /// `name` includes systemd's suffix; `user` is the user id of the manager that runs it.
    Unit {
        name: String,
        user: Option<String>,
    },
}

/// None: the path names no container or unit.
pub fn membership(path: &str) -> Option<Membership> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    container(&parts).or_else(|| unit(&parts))
}

/// The most specific membership in the `cgroup` file of a process. With cgroup version 1 the hierarchies may differ.
pub fn membership_of_process(file: &str) -> Option<(Membership, String)> {
    // N:controllers:/path; the path may contain colons
    let paths: Vec<&str> = file.lines().filter_map(|line| line.splitn(3, ':').nth(2)).collect();
    let with_path = |path: &&str| Some((membership(path)?, (*path).to_owned()));
    let all: Vec<(Membership, String)> = paths.iter().filter_map(with_path).collect();
    let container = all.iter().find(|(membership, _)| matches!(membership, Membership::Container { .. }));
    container.or(all.first()).cloned()
}

fn container(parts: &[&str]) -> Option<Membership> {
    // the innermost of nested containers
    let (at, id) = parts.iter().enumerate().rev().find_map(|(at, part)| Some((at, container_id(part)?)))?;
    let pod = parts[..at].iter().rev().find_map(|part| pod_uid(part));
    Some(Membership::Container { id: id.to_owned(), pod })
}

fn container_id(part: &str) -> Option<&str> {
    const DIGITS: usize = 64;
    let part = part.strip_suffix(".scope").unwrap_or(part);
    // containerd without systemd writes NAMESPACE:PREFIX:ID
    let id = part.rsplit(['-', ':']).next()?;
    // conmon monitors a container from outside
    let is_monitor = part.contains("conmon");
    (id.len() == DIGITS && id.bytes().all(|b| b.is_ascii_hexdigit()) && !is_monitor).then_some(id)
}

/// `podUID` or `kubepods-burstable-podUID.slice`; systemd's names have `_` instead of `-`. The uid of a static pod is a
/// plain hash.
fn pod_uid(part: &str) -> Option<String> {
    const DIGITS: usize = 32;
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let (before, uid) = part.rsplit_once("pod")?;
    let uid = uid.replace('_', "-");
    let digits = uid.bytes().filter(|b| *b != b'-');
    let is_uid = digits.clone().count() == DIGITS && digits.into_iter().all(|b| b.is_ascii_hexdigit());
    ((before.is_empty() || before.ends_with('-')) && is_uid).then_some(uid)
}

fn unit(parts: &[&str]) -> Option<Membership> {
    let is_unit = |part: &&&str| part.ends_with(".service") || part.ends_with(".scope");
    let innermost = *parts.iter().rev().find(is_unit)?;
    let manager = parts.iter().find_map(|part| part.strip_prefix("user@")?.strip_suffix(".service"));
    let is_manager = innermost.starts_with("user@");
    // the manager's own processes are in a scope below it
    let name = if innermost == "init.scope" && manager.is_some() {
        return unit_of(&format!("user@{}.service", manager?), None);
    } else {
        innermost
    };
    unit_of(name, manager.filter(|_| !is_manager))
}

fn unit_of(name: &str, user: Option<&str>) -> Option<Membership> {
    let plain = name.rsplit_once('.').map_or(name, |(plain, _)| plain);
    let is_session = plain.strip_prefix("session-").is_some() && name.ends_with(".scope");
    // systemd-run and desktops create transient units
    let is_transient = plain.starts_with("run-") || plain.starts_with("vte-spawn-") || plain.starts_with("tmux-spawn-");
    if is_session || is_transient {
        return None;
    }
    Some(Membership::Unit { name: name.to_owned(), user: user.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d";

    fn with_ids(path: &str) -> String {
        path.replace("UUID", UID).replace("U_I_D", &UID.replace('-', "_")).replace("ID", ID)
    }

    #[test]
    fn containers_of_every_runtime_are_recognized() {
        let table = [
            ("/system.slice/docker-ID.scope", false),
            ("/docker/ID", false),
            ("/system.slice/containerd.service/docker-ID.scope", false),
            ("/machine.slice/libpod-ID.scope/container", false),
            ("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope", false),
            ("/system.slice/docker-ID.scope/system.slice/nginx.service", false),
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice/cri-containerd-ID.scope",
                true,
            ),
            ("/kubepods.slice/kubepods-podU_I_D.slice/crio-ID.scope", true),
            ("/kubepods/besteffort/podUUID/ID", true),
            ("/system.slice/kubepods-burstable-podU_I_D.slice:cri-containerd:ID", false),
            ("/../../podUUID/ID", true),
        ];
        for (path, in_pod) in table {
            let expected = Membership::Container { id: ID.into(), pod: in_pod.then(|| UID.to_owned()) };
            assert_eq!(membership(&with_ids(path)), Some(expected), "{path}");
        }
    }

    #[test]
    fn system_and_user_units_are_recognized() {
        let unit = |name: &str, user: Option<&str>| {
            Some(Membership::Unit { name: name.into(), user: user.map(str::to_owned) })
        };
        let table = [
            ("/system.slice/nginx.service", unit("nginx.service", None)),
            ("/system.slice/system-getty.slice/getty@tty1.service", unit("getty@tty1.service", None)),
            ("/system.slice/postgresql@15-main.service", unit("postgresql@15-main.service", None)),
            ("/init.scope", unit("init.scope", None)),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/sync.service",
                unit("sync.service", Some("1000")),
            ),
            ("/user.slice/user-1000.slice/user@1000.service/init.scope", unit("user@1000.service", None)),
            ("/user.slice/user-1000.slice/user@1000.service", unit("user@1000.service", None)),
            ("/user.slice/user-1000.slice/session-3.scope", None),
            ("/system.slice/run-u12.service", None),
            ("/machine.slice/libpod-conmon-ID.scope", unit(&with_ids("libpod-conmon-ID.scope"), None)),
            ("/", None),
            ("", None),
            ("/user.slice", None),
        ];
        for (path, expected) in table {
            assert_eq!(membership(&with_ids(path)), expected, "{path}");
        }
    }

    #[test]
    fn with_version_1_any_hierarchy_may_name_the_container() {
        let file =
            with_ids("12:pids:/system.slice/docker.service\n5:memory:/docker/ID\n1:name=systemd:/docker/ID\n0::/\n");
        let (found, path) = membership_of_process(&file).unwrap();
        assert_eq!(found, Membership::Container { id: ID.into(), pod: None });
        assert_eq!(path, with_ids("/docker/ID"));
        assert_eq!(membership_of_process("4:memory:/process/b32\n0::/\n"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text: String) {
            let _ = membership_of_process(&text);
            let _ = membership(&text);
        }
    }
}

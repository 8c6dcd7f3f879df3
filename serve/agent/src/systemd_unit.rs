//! The systemd unit of the agent.

use crate::capabilities;
use flows::Source;
use std::path::Path;

/// Returns a unit with exactly the capabilities of one source. It can open network connections only if `database` is
/// true.
pub fn unit(source: Source, program: &Path, interval: &str, database: bool) -> String {
    let capabilities = capabilities::names(capabilities::needed(source)).join(" ");
    let families = if database { "AF_UNIX AF_NETLINK AF_INET AF_INET6" } else { "AF_UNIX AF_NETLINK" };
    let environment = match database {
        // a URL may contain a password, and units are world-readable
        true => {
            "# FAULTLOOM_DATABASE=postgres://… of the fleet's store, in a file that only root can read\n\
                 EnvironmentFile=/etc/faultloom/agent.env\n"
        }
        false => "",
    };
    format!(
        "[Unit]\n\
         Description=Faultloom agent: dependencies between the processes of this host\n\
         Documentation=man:systemd.exec(5)\n\
         After=network.target\n\
         \n\
         [Service]\n\
         Type=exec\n\
         ExecStart={program} agent --mode {source} --interval {interval} --state /var/lib/faultloom\n\
         {environment}\
         DynamicUser=yes\n\
         StateDirectory=faultloom\n\
         StateDirectoryMode=0750\n\
         Restart=on-failure\n\
         RestartSec=5\n\
         TimeoutStopSec=20\n\
         MemoryMax=256M\n\
         \n\
         # exactly the capabilities that {source} requires\n\
         AmbientCapabilities={capabilities}\n\
         CapabilityBoundingSet={capabilities}\n\
         NoNewPrivileges=yes\n\
         \n\
         # it reads /proc and the control groups, and writes only to its state\n\
         ProtectSystem=strict\n\
         ProtectHome=yes\n\
         ProtectProc=default\n\
         PrivateTmp=yes\n\
         PrivateDevices=yes\n\
         ProtectClock=yes\n\
         ProtectHostname=yes\n\
         ProtectKernelModules=yes\n\
         ProtectKernelTunables=yes\n\
         RestrictAddressFamilies={families}\n\
         RestrictNamespaces=yes\n\
         RestrictRealtime=yes\n\
         RestrictSUIDSGID=yes\n\
         LockPersonality=yes\n\
         MemoryDenyWriteExecute=yes\n\
         SystemCallArchitectures=native\n\
         UMask=0027\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        program = program.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_exactly_its_capabilities() {
        let capabilities_of = |source| {
            let text = unit(source, Path::new("/usr/bin/faultloom"), "1s", false);
            let line = |key: &str| text.lines().find_map(|l| l.strip_prefix(key)).unwrap().to_owned();
            assert_eq!(line("AmbientCapabilities="), line("CapabilityBoundingSet="));
            line("AmbientCapabilities=")
        };
        assert_eq!(capabilities_of(Source::Ebpf), "CAP_PERFMON CAP_BPF");
        assert_eq!(capabilities_of(Source::Polling), "CAP_DAC_READ_SEARCH CAP_SYS_PTRACE");
        assert_eq!(capabilities_of(Source::Tuples), "");
    }

    #[test]
    fn only_a_fleet_store_permits_network_access() {
        let text = |database| unit(Source::Ebpf, Path::new("/usr/bin/faultloom"), "1s", database);
        assert!(!text(false).contains("AF_INET") && !text(false).contains("EnvironmentFile"));
        assert!(text(true).contains("AF_INET6") && text(true).contains("EnvironmentFile=/etc/faultloom/agent.env\n"));
    }
}

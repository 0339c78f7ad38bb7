//! Where a program runs: on this host as it is, or in one of two network namespaces joined by a cable.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a program runs.
#[derive(Clone, Debug)]
pub enum Place {
    /// This host, in the namespace of the tests.
    Here,
    /// A network namespace by name, and the interface that its device sits on.
    Namespace {
        /// As `ip netns` knows it.
        name: String,
        /// The interface for `glass0`.
        interface: String,
    },
}

impl Place {
    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Here => None,
            Self::Namespace { name, .. } => Some(name),
        }
    }

    pub(crate) fn interface(&self) -> Option<&str> {
        match self {
            Self::Here => None,
            Self::Namespace { interface, .. } => Some(interface),
        }
    }
}

/// Two network namespaces with a veth pair between them; removed when dropped.
///
/// IPv4 addresses are 10.77.0.1 and .2, IPv6 addresses fd77::1 and ::2. Both are used at once.
#[derive(Debug)]
pub struct Cable {
    /// The two ends.
    pub ends: [End; 2],
}

/// One end of a [`Cable`].
#[derive(Debug)]
pub struct End {
    /// Where programs of this end run.
    pub place: Place,
    /// Its IPv4 address.
    pub ipv4: Ipv4Addr,
    /// Its global IPv6 address.
    pub ipv6: Ipv6Addr,
    name: String,
}

impl End {
    fn new(name: String, number: u8) -> Self {
        Self {
            place: Place::Namespace { name: name.clone(), interface: CABLE_INTERFACE.into() },
            ipv4: Ipv4Addr::new(10, 77, 0, number),
            ipv6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, number.into()),
            name,
        }
    }

    /// Its address of the wanted family.
    pub fn address(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => self.ipv4.into(),
            Family::V6 => self.ipv6.into(),
        }
    }
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The interface at both ends of a [`Cable`].
pub const CABLE_INTERFACE: &str = "wire0";

const NAMESPACE_PREFIX: &str = "gne2e-";

impl Cable {
    /// Lays a cable.
    ///
    /// # Panics
    /// Without root, or without iproute2.
    pub fn lay() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        remove_stale();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = |side| format!("{NAMESPACE_PREFIX}{}-{number}{side}", std::process::id());
        // Made before the namespaces, so that a failure half-way removes what is there.
        let cable = Self { ends: [End::new(name('a'), 1), End::new(name('b'), 2)] };
        let [a, b] = [&cable.ends[0].name, &cable.ends[1].name];
        for end in [a, b] {
            ip(&format!("netns add {end}"));
            let no_wait = ["all", "default"].map(|scope| format!("net.ipv6.conf.{scope}.accept_dad=0"));
            ip(&format!("netns exec {end} sysctl -qw {}", no_wait.join(" ")));
        }
        ip(&format!("-n {a} link add {CABLE_INTERFACE} type veth peer name {CABLE_INTERFACE} netns {b}"));
        for end in &cable.ends {
            ip(&format!("-n {} link set lo up", end.name));
            ip(&format!("-n {} link set {CABLE_INTERFACE} up", end.name));
            ip(&format!("-n {} addr add {}/24 dev {CABLE_INTERFACE}", end.name, end.ipv4));
            ip(&format!("-n {} -6 addr add {}/64 dev {CABLE_INTERFACE} nodad", end.name, end.ipv6));
        }
        cable
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for end in &self.ends {
            remove_namespace(&end.name);
        }
    }
}

fn remove_namespace(name: &str) {
    // It may not have been made yet; there is nobody to tell.
    let _ = Command::new("ip").args(["netns", "del", name]).output();
}

/// Namespaces of test processes that were killed.
fn remove_stale() {
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(NAMESPACE_PREFIX).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove_namespace(&name);
        }
    }
}

fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ')).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run ip (package iproute2): {error}"));
    assert!(
        output.status.success(),
        "`ip {words}` failed; network namespaces need root: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

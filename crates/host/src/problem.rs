//! What is not as it should be about the device of a process, as data and in words.

use std::fmt;
use std::io;

use glassnic_explain::{Lang, system_error_in};
use glassnic_link::cma::Obstacle;
use glassnic_link::directory::DirectoryError;
use glassnic_link::iface::SelectError;
use glassnic_link::udp::BindError;

use crate::chinese;
use crate::profile::ProfileError;

/// Why there are no devices, or what is missing. The rest works without.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The interfaces cannot be read (getifaddrs(3)).
    Interfaces(io::Error),
    /// `GLASSNIC_DEVICES` is no list of devices.
    Devices(SelectError),
    /// `GLASSNIC_PROFILE` names no profile.
    Profile(ProfileError),
    /// Other processes of this host are out of reach.
    SharedMemory(DirectoryError),
    /// As before, because of our own place in the directory.
    Inbox(io::Error),
    /// Long messages cannot pass between processes.
    SingleCopy(Obstacle),
    /// Other hosts are out of reach.
    Roce(BindError),
    /// `GLASSNIC_LINK` names no link.
    Link(String),
}

/// Something that can be said in each language.
pub trait Words: fmt::Display {
    /// In one line.
    fn in_words(&self, lang: Lang) -> String;
}

/// In English.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interfaces(e) => write!(f, "cannot read the interfaces: {e}"),
            Self::Devices(e) => write!(f, "GLASSNIC_DEVICES: {e}"),
            Self::Profile(e) => e.fmt(f),
            Self::SharedMemory(e) => write!(f, "no shared memory: {e}"),
            Self::Inbox(e) => write!(f, "no inbox in shared memory: {e}"),
            Self::SingleCopy(e) => write!(f, "no single copy: {e}"),
            Self::Roce(e) => write!(f, "no RoCEv2: {e}"),
            Self::Link(given) => write!(f, "GLASSNIC_LINK={given} is not known; use udp or shm"),
        }
    }
}

macro_rules! in_words {
    ($($kind:ty => $chinese:path),+ $(,)?) => {
        $(impl Words for $kind {
            fn in_words(&self, lang: Lang) -> String {
                match lang {
                    Lang::Zh => $chinese(self),
                    _ => self.to_string(),
                }
            }
        })+
    };
}

in_words! {
    Problem => chinese::problem,
    ProfileError => chinese::profile,
    DirectoryError => chinese::directory,
}

impl Words for io::Error {
    fn in_words(&self, lang: Lang) -> String {
        system_error_in(lang, self)
    }
}

//! Memory of one endpoint and the regions that grant it.

use glassnic_transport::attr::AccessFlags;

/// Host addresses are this much above the addresses that programs give, so that a mix-up of the two is found.
pub const HOST_OFFSET: u64 = 0x7000_0000_0000;

/// A registered memory region.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Local key.
    pub lkey: u32,
    /// Remote key.
    pub rkey: u32,
    /// Protection domain.
    pub pd: u32,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Rights.
    pub access: AccessFlags,
    /// False once invalidated or deregistered.
    pub alive: bool,
}

impl Region {
    /// True if `addr .. addr + len` lies in it.
    #[must_use]
    pub fn holds(&self, addr: u64, len: u64) -> bool {
        addr >= self.start && len <= self.len && addr - self.start <= self.len - len
    }
}

/// A copy that was recorded instead of made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Where it would have come from, in the sender's memory.
    pub from: u64,
    /// Where it would have gone.
    pub to: u64,
    /// Bytes.
    pub len: u64,
}

/// What lies at an endpoint's addresses.
#[derive(Debug)]
pub enum Memory {
    /// Real bytes.
    Held {
        /// Address of the first one.
        base: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// No bytes at all: packets carry addresses, and copies are only noted. For messages of gigabytes.
    Noted {
        /// First address.
        base: u64,
        /// Bytes that it pretends to have.
        len: u64,
        /// What was copied to it; neighbours are joined.
        copies: Vec<Copied>,
    },
}

impl Memory {
    /// First address.
    #[must_use]
    pub fn base(&self) -> u64 {
        match self {
            Self::Held { base, .. } | Self::Noted { base, .. } => *base,
        }
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Held { bytes, .. } => bytes.len() as u64,
            Self::Noted { len, .. } => *len,
        }
    }

    /// Has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes at `addr`, which must be held.
    #[must_use]
    pub fn get(&self, addr: u64, len: usize) -> &[u8] {
        match self {
            Self::Held { base, bytes } => {
                let at = (addr - base) as usize;
                &bytes[at..at + len]
            }
            Self::Noted { .. } => panic!("noted memory has no bytes"),
        }
    }

    /// The bytes at `addr`, to change.
    pub fn get_mut(&mut self, addr: u64, len: usize) -> &mut [u8] {
        match self {
            Self::Held { base, bytes } => {
                let at = (addr - *base) as usize;
                &mut bytes[at..at + len]
            }
            Self::Noted { .. } => panic!("noted memory has no bytes"),
        }
    }

    /// Notes a copy, joined to the one before where it continues it.
    pub(crate) fn note(&mut self, copied: Copied) {
        let Self::Noted { copies, .. } = self else { panic!("held memory takes bytes") };
        match copies.last_mut() {
            Some(last) if last.from + last.len == copied.from && last.to + last.len == copied.to => {
                last.len += copied.len;
            }
            _ => copies.push(copied),
        }
    }
}

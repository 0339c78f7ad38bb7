//! The port: its GID table and MTU, as the host keeps them.

use glassnic_events::IndexSet;
use glassnic_transport::attr::Mtu;
use glassnic_transport::state::PortFacts;

/// Length of the GID table.
pub const GID_TABLE_LEN: u8 = 64;

/// What is known of port 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// GIDs by index; holes are empty entries.
    pub gids: Vec<Option<[u8; 16]>>,
    /// Greatest payload of a packet.
    pub active_mtu: Mtu,
    /// The interface is up.
    pub active: bool,
}

impl Port {
    /// The GID at an index.
    #[must_use]
    pub fn gid(&self, index: u8) -> Option<[u8; 16]> {
        self.gids.get(usize::from(index)).copied().flatten()
    }

    /// What the checks of modify need to know.
    #[must_use]
    pub fn facts(&self) -> PortFacts {
        let filled = (0..GID_TABLE_LEN).zip(&self.gids).filter(|(_, gid)| gid.is_some()).map(|(i, _)| i);
        PortFacts {
            active_mtu: self.active_mtu,
            pkey_count: 1,
            gid_count: GID_TABLE_LEN,
            gids: filled.fold(IndexSet(0), IndexSet::with),
        }
    }
}

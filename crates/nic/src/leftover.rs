//! What is left on a device: objects by the place that made them, errors that nobody polled.

use std::collections::BTreeMap;

use glassnic_events::{Leftover, ObjectKind};

use crate::device::Nic;
use crate::driver::Field;
use crate::object::{Head, Image, Kind};

/// Objects of a kind from one place.
struct Group {
    count: u32,
    created_ns: u64,
    first: u32,
}

impl Nic {
    /// Objects that were not destroyed, by kind and place, and completions with an error that were not polled.
    #[must_use]
    pub fn leftovers(&self) -> Vec<Leftover> {
        let kinds =
            [Kind::Cq, Kind::Srq, Kind::Channel, Kind::Ah, Kind::Mw, Kind::Mr, Kind::Pd].map(Kind::object);
        let objects = std::iter::once(ObjectKind::Qp).chain(kinds).flat_map(|kind| self.holders(kind));
        objects.chain(self.unread_errors()).collect()
    }

    /// The objects of a kind, by the place that made them, most numerous first.
    #[must_use]
    pub fn holders(&self, kind: ObjectKind) -> Vec<Leftover> {
        let mut groups: BTreeMap<u32, Group> = BTreeMap::new();
        let mut add = |site, number, created_ns| {
            let group = groups.entry(site).or_insert(Group { count: 0, created_ns, first: number });
            group.count += 1;
            if created_ns < group.created_ns {
                (group.created_ns, group.first) = (created_ns, number);
            }
        };
        if kind == ObjectKind::Qp {
            for entry in self.qps.iter() {
                let of = |field| entry.shared.block.get(field);
                add(of(Field::Site) as u32, entry.shared.qpn, of(Field::CreatedNs));
            }
        } else if let Some(kind) = Kind::ALL.into_iter().find(|k| k.object() == kind) {
            let memory = self.memory();
            let images = (0..memory.high(kind)).filter_map(|index| Image::load(memory, kind, index));
            for image in images {
                let of = |field| image.get(field);
                add(of(Head::Site) as u32, of(Head::Handle) as u32, of(Head::CreatedNs));
            }
        }
        let mut found: Vec<_> = groups.into_iter().collect();
        found.sort_by_key(|(_, group)| (std::cmp::Reverse(group.count), group.created_ns));
        let leftover = |(site, Group { count, first, .. })| Leftover::Objects { kind, count, first, site };
        found.into_iter().map(leftover).collect()
    }

    fn unread_errors(&self) -> impl Iterator<Item = Leftover> {
        self.cqs.iter().filter_map(|(cq, entry)| {
            let (count, oldest) = entry.queue.unread_errors()?;
            let (qpn, wr_id, status) = (oldest.qpn.value(), oldest.wr_id, oldest.status);
            Some(Leftover::Completions { cq, count, qpn, wr_id, status })
        })
    }

    /// The QPs that failed and of which the program was not told, by number.
    #[must_use]
    pub fn untold(&self) -> Vec<u32> {
        let entries = self.qps.iter();
        let failed = entries.filter(|entry| {
            entry.qp.first_cause().is_some() && !entry.counters.as_ref().is_some_and(|c| c.told)
        });
        failed.map(|entry| entry.shared.qpn).collect()
    }
}

impl Kind {
    /// The kind of object.
    #[must_use]
    pub const fn object(self) -> ObjectKind {
        match self {
            Self::Pd => ObjectKind::Pd,
            Self::Cq => ObjectKind::Cq,
            Self::Mr => ObjectKind::Mr,
            Self::Ah => ObjectKind::Ah,
            Self::Srq => ObjectKind::Srq,
            Self::Channel => ObjectKind::CompChannel,
            Self::Mw => ObjectKind::Mw,
        }
    }
}

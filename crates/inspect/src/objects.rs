//! The objects beside QPs, as plain data.

use glassnic_events::Gid;
use glassnic_verbs::attr::AccessFlags;
use glassnic_verbs::object::{self, Head};
use serde::Serialize;

use crate::model::Site;

/// What all objects have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectModel {
    /// Its handle.
    pub handle: u32,
    /// The protection domain that it belongs to; 0 for none.
    pub pd: u32,
    /// The thread that created it.
    pub created_by: u32,
    /// How long ago it was created, in nanoseconds.
    pub age_ns: u64,
    /// Frames of the program that created it, innermost first.
    pub site: Site,
}

/// A protection domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PdModel {
    /// What all objects have.
    #[serde(flatten)]
    pub object: ObjectModel,
}

/// A completion queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CqModel {
    /// What all objects have.
    #[serde(flatten)]
    pub object: ObjectModel,
    /// Completions that it holds.
    pub depth: u32,
    /// Completions that there are at most, should all queues that report to it be full.
    pub worst_case: u32,
    /// Completions that wait to be polled.
    pub waiting: u32,
    /// Completion channel; 0 for none.
    pub channel: u32,
    /// What it is armed for: `none`, `solicited` or `next`.
    pub armed: &'static str,
    /// Whether a completion found no room.
    pub overrun: bool,
    /// Completions that waited when it was armed.
    pub armed_with: u32,
    /// Completion events raised.
    pub raised: u32,
    /// Completion events taken and not acknowledged.
    pub unacknowledged: u64,
    /// Completions that an event stands for; 0 or 1: each has its own.
    pub moderate_count: u32,
    /// The longest that an event is held back, in microseconds; 0: not at all.
    pub moderate_period_us: u32,
    /// Completions that others took the place of, as it ignores overrun.
    pub lost: u32,
}

/// A memory region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MrModel {
    /// What all objects have.
    #[serde(flatten)]
    pub object: ObjectModel,
    /// Key for the program's own requests.
    pub lkey: u32,
    /// Key for peers.
    pub rkey: u32,
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// Address that peers use.
    pub iova: u64,
    /// Names of `enum ibv_access_flags`.
    pub access: Vec<&'static str>,
}

/// A memory window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MwModel {
    /// What all objects have.
    #[serde(flatten)]
    pub object: ObjectModel,
    /// `enum ibv_mw_type`.
    pub mw_type: u8,
    /// Key for peers.
    pub rkey: u32,
    /// Handle of the region that it is bound to; none while it is not bound.
    pub mr: Option<u32>,
    /// First address, as the region's owner knows it.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// Names of `enum ibv_access_flags`.
    pub access: Vec<&'static str>,
    /// The queue pair that bound it, of type 2.
    pub qpn: Option<u32>,
}

/// A shared receive queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SrqModel {
    /// What all objects have.
    #[serde(flatten)]
    pub object: ObjectModel,
    /// Receives that it holds.
    pub depth: u32,
    /// Receives posted and not taken.
    pub posted: u32,
    /// Receives ever posted.
    pub ever_posted: u32,
    /// Elements of a receive.
    pub max_sge: u32,
    /// Limit at which it raises an event; 0 not armed.
    pub limit: u32,
}

/// An address handle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AhModel {
    /// What all objects have.
    #[serde(flatten)]
    pub object: ObjectModel,
    /// Destination GID.
    pub dgid: String,
    /// Index of the source GID.
    pub sgid_index: u8,
    /// Port.
    pub port_num: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label.
    pub flow_label: u32,
}

/// A completion channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChannelModel {
    /// What all objects have.
    #[serde(flatten)]
    pub object: ObjectModel,
    /// Its file descriptor.
    pub fd: u32,
    /// Events that nobody has taken yet.
    pub waiting: u32,
    /// How long a thread has slept for an event, in nanoseconds; `None` while none does.
    pub asleep_ns: Option<u64>,
    /// That thread.
    pub sleeper: u32,
}

impl ObjectModel {
    pub(crate) fn new(image: &object::Image, site: Site, now_ns: u64) -> Self {
        Self {
            handle: image.get(Head::Handle) as u32,
            pd: image.get(Head::Pd) as u32,
            created_by: image.get(Head::Thread) as u32,
            age_ns: now_ns.saturating_sub(image.get(Head::CreatedNs)),
            site,
        }
    }
}

impl CqModel {
    pub(crate) fn new(image: &object::Image, object: ObjectModel, worst_case: u32) -> Self {
        use object::Cq;
        Self {
            object,
            depth: image.get(Cq::Depth) as u32,
            worst_case,
            waiting: image.get(Cq::Waiting) as u32,
            channel: image.get(Cq::Channel) as u32,
            armed: match image.get(Cq::Armed) {
                0 => "none",
                1 => "solicited",
                _ => "next",
            },
            overrun: image.get(Cq::Overrun) != 0,
            armed_with: image.get(Cq::ArmedWith) as u32,
            raised: image.get(Cq::Raised) as u32,
            unacknowledged: image.get(Cq::Unacknowledged),
            moderate_count: image.get(Cq::ModerateCount) as u32,
            moderate_period_us: image.get(Cq::ModeratePeriod) as u32,
            lost: image.get(Cq::Lost) as u32,
        }
    }
}

impl ChannelModel {
    pub(crate) fn new(image: &object::Image, object: ObjectModel, now_ns: u64) -> Self {
        use object::Channel;
        let since = Some(image.get(Channel::AsleepSinceNs)).filter(|since| *since != 0);
        Self {
            object,
            fd: image.get(Channel::Fd) as u32,
            waiting: image.get(Channel::Waiting) as u32,
            asleep_ns: since.map(|since| now_ns.saturating_sub(since)),
            sleeper: image.get(Channel::Sleeper) as u32,
        }
    }
}

impl MrModel {
    pub(crate) fn new(image: &object::Image, object: ObjectModel) -> Self {
        use object::Mr;
        let access = AccessFlags::from_bits_truncate(image.get(Mr::Access) as u32);
        Self {
            object,
            lkey: image.get(Mr::Lkey) as u32,
            rkey: image.get(Mr::Rkey) as u32,
            addr: image.get(Mr::Addr),
            length: image.get(Mr::Length),
            iova: image.get(Mr::Iova),
            access: access.iter_names().map(|(name, _)| name).collect(),
        }
    }
}

impl MwModel {
    pub(crate) fn new(image: &object::Image, object: ObjectModel) -> Self {
        use object::Mw;
        let some = |number: u64| Some(number as u32).filter(|number| *number != 0);
        let access = AccessFlags::from_bits_truncate(image.get(Mw::Access) as u32);
        Self {
            object,
            mw_type: image.get(Mw::Type) as u8,
            rkey: image.get(Mw::Rkey) as u32,
            mr: some(image.get(Mw::Region)),
            addr: image.get(Mw::Addr),
            length: image.get(Mw::Length),
            access: access.iter_names().map(|(name, _)| name).collect(),
            qpn: some(image.get(Mw::Qpn)),
        }
    }
}

impl SrqModel {
    pub(crate) fn new(image: &object::Image, object: ObjectModel) -> Self {
        use object::Srq;
        Self {
            object,
            depth: image.get(Srq::Depth) as u32,
            posted: image.get(Srq::Posted) as u32,
            ever_posted: image.get(Srq::EverPosted) as u32,
            max_sge: image.get(Srq::MaxSge) as u32,
            limit: image.get(Srq::Limit) as u32,
        }
    }
}

impl AhModel {
    pub(crate) fn new(image: &object::Image, object: ObjectModel) -> Self {
        use object::Ah;
        Self {
            object,
            dgid: Gid(image.gid(Ah::Dgid)).to_string(),
            sgid_index: image.get(Ah::SgidIndex) as u8,
            port_num: image.get(Ah::PortNum) as u8,
            hop_limit: image.get(Ah::HopLimit) as u8,
            traffic_class: image.get(Ah::TrafficClass) as u8,
            flow_label: image.get(Ah::FlowLabel) as u32,
        }
    }
}

//! A NIC as plain data.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use glassnic_events::{Check, FirstCause, Gid, QpState, QpType, WcStatus};
use glassnic_explain::{Lang, explain_first_cause_in};
use glassnic_verbs::fields::Fields;
use glassnic_verbs::inspect::QpView;
use glassnic_verbs::{driver, qpc};
use serde::{Serialize, Serializer};

use crate::decode::FieldModel;
pub use crate::objects::{AhModel, ChannelModel, CqModel, MrModel, MwModel, ObjectModel, PdModel, SrqModel};
use crate::words::{both, name, words};

/// What became of the process that opened a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NicState {
    /// It runs.
    Open,
    /// It has closed the NIC, and the segment was kept.
    Closed,
    /// It is gone, and had not closed the NIC.
    Crashed,
    /// It ended by exit(3), and had not closed the NIC.
    Exited,
}

impl NicState {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Crashed => "crashed",
            Self::Exited => "exited",
        }
    }

    /// The word of a language for it.
    #[must_use]
    pub const fn in_words(self, lang: Lang) -> &'static str {
        match self {
            Self::Open => lang.pick("open", "已打开"),
            Self::Closed => lang.pick("closed", "已关闭"),
            Self::Crashed => lang.pick("crashed", "已崩溃"),
            Self::Exited => lang.pick("exited", "已退出"),
        }
    }
}

/// A place in a program: frames, innermost first. Many objects come from few places, and share what is kept of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site(Arc<[String]>);

impl Deref for Site {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl From<Vec<String>> for Site {
    fn from(frames: Vec<String>) -> Self {
        Self(frames.into())
    }
}

impl Serialize for Site {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// A NIC, and all objects that it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NicModel {
    /// The process that opened it.
    pub pid: u32,
    /// The name of its program.
    pub command: String,
    /// The device's name.
    pub device: String,
    /// The name of its segment in the folder of processes.
    pub segment: String,
    /// What became of the process.
    pub state: NicState,
    /// How long ago it was opened, in nanoseconds.
    pub age_ns: u64,
    /// QPs.
    pub qps: Vec<QpModel>,
    /// Protection domains.
    pub pds: Vec<PdModel>,
    /// Completion queues.
    pub cqs: Vec<CqModel>,
    /// Memory regions.
    pub mrs: Vec<MrModel>,
    /// Memory windows.
    pub mws: Vec<MwModel>,
    /// Shared receive queues.
    pub srqs: Vec<SrqModel>,
    /// Address handles.
    pub ahs: Vec<AhModel>,
    /// Completion channels.
    pub channels: Vec<ChannelModel>,
    /// Asynchronous events.
    pub asynchronous: AsyncModel,
    /// The forked child that used what its parent opened, the last time, and how often one did.
    pub forked_use: Option<ForkedUse>,
    /// How long after a modify its device writes the context back, in nanoseconds.
    pub write_back_ns: u64,
    /// The number that whoever started the program gave it; 0 for none.
    pub run: u64,
    /// How many of each kind there may be.
    pub limits: LimitsModel,
    /// The port's GIDs, by index.
    pub gids: Vec<GidModel>,
}

/// A GID of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GidModel {
    /// Its index.
    pub index: u8,
    /// Its bytes.
    pub gid: [u8; 16],
}

/// How many objects of a kind there may be; 0 where the segment has no table of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LimitsModel {
    /// QPs.
    pub max_qp: usize,
    /// Completion queues.
    pub max_cq: usize,
    /// Memory regions.
    pub max_mr: usize,
    /// Protection domains.
    pub max_pd: usize,
    /// Address handles.
    pub max_ah: usize,
    /// Shared receive queues.
    pub max_srq: usize,
}

/// Asynchronous events of a NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AsyncModel {
    /// Those that nobody has taken yet.
    pub waiting: u32,
    /// Those ever raised.
    pub raised: u32,
    /// How long the oldest has waited, in nanoseconds.
    pub waiting_ns: Option<u64>,
}

/// Use of a NIC by a forked child of the process that opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ForkedUse {
    /// The child.
    pub child: u32,
    /// How often.
    pub times: u32,
}

/// A QP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QpModel {
    /// Its number.
    pub qpn: u32,
    /// Its type, as RC.
    pub qp_type: String,
    /// Its state, as the device has it.
    pub state: String,
    /// Its state, as the driver's last call left it.
    pub driver_state: String,
    /// Whom it is connected with.
    pub peer: Option<PeerModel>,
    /// The send queue.
    pub sq: QueueModel,
    /// The receive queue.
    pub rq: QueueModel,
    /// The first error since it left RESET.
    pub first_error: Option<ErrorModel>,
    /// How long ago it was created, in nanoseconds.
    pub age_ns: u64,
    /// Frames of the program that created it, innermost first.
    pub site: Site,
    /// The device's context; [`QpModel::device`] tells its fields.
    #[serde(skip)]
    pub context: qpc::Image,
    /// The driver's block; [`QpModel::driver`] tells its fields.
    #[serde(skip)]
    pub block: driver::Image,
}

/// The other end of a QP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerModel {
    /// Its GID.
    pub gid: String,
    /// Its number.
    pub qpn: u32,
    /// Its process, where it is one of this user on this host.
    pub pid: Option<u32>,
}

/// How full a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct QueueModel {
    /// Slots in use.
    pub used: u32,
    /// Slots.
    pub depth: u32,
}

/// The first error of a QP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorModel {
    /// `enum ibv_wc_status`.
    pub status: u32,
    /// Its name.
    pub status_name: String,
    /// The check that failed.
    pub check: String,
    /// The PSN; 0 where it is about none.
    pub psn: u32,
    /// The request; 0 where it is about none.
    pub wr_id: u64,
    /// What happened.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl QpModel {
    /// From the two sides of a QP; `site` is where it was created.
    pub(crate) fn new(lang: Lang, qp: &QpView, site: Site, now_ns: u64) -> Self {
        use qpc::Field as F;
        let QpView { context, driver } = qp;
        let number = |field| context.get(field) as u32;
        let connected = QpType::try_from(number(F::QpType)).is_ok_and(QpType::is_connected);
        let peer = (connected && number(F::DestQpn) != 0).then(|| PeerModel {
            gid: Gid(context.dgid()).to_string(),
            qpn: number(F::DestQpn),
            pid: None,
        });
        Self {
            qpn: number(F::Qpn),
            qp_type: name::<QpType>(number(F::QpType)),
            state: name::<QpState>(number(F::State)),
            driver_state: name::<QpState>(driver.get(driver::Field::State) as u32),
            peer,
            sq: QueueModel { used: number(F::SqUsed), depth: number(F::SqDepth) },
            rq: QueueModel { used: number(F::RqUsed), depth: number(F::RqDepth) },
            first_error: ErrorModel::of(lang, context),
            age_ns: now_ns.saturating_sub(context.get(F::CreatedNs)),
            site,
            context: *context,
            block: *driver,
        }
    }

    /// Every field of the device's context, in words of a language.
    #[must_use]
    pub fn device(&self, lang: Lang) -> Vec<FieldModel> {
        FieldModel::all(lang, qpc::Field::ALL, self.context.bytes(), self.read_ns())
    }

    /// Every field of the driver's block, in words of a language.
    #[must_use]
    pub fn driver(&self, lang: Lang) -> Vec<FieldModel> {
        FieldModel::all(lang, driver::Field::ALL, self.block.bytes(), self.read_ns())
    }

    /// When it was read: monotonic clock, nanoseconds.
    fn read_ns(&self) -> u64 {
        self.context.get(qpc::Field::CreatedNs).saturating_add(self.age_ns)
    }

    /// The CQs that it reports to, each with the requests of its send queue and of its receive queue that the CQ may have to
    /// hold completions of.
    pub(crate) fn loads(&self) -> impl Iterator<Item = (u32, [u32; 2])> {
        let cq = |field| self.context.get(field) as u32;
        let (send, recv) = (cq(qpc::Field::SendCq), cq(qpc::Field::RecvCq));
        let (sq, rq) = (self.sq.depth, self.rq.depth);
        let loads = if send == recv {
            [Some((send, [sq, rq])), None]
        } else {
            [Some((send, [sq, 0])), Some((recv, [0, rq]))]
        };
        loads.into_iter().flatten()
    }
}

/// Completions that each CQ may have to hold, should all queues that report to it be full.
pub(crate) fn worst_cases(qps: &[QpModel]) -> BTreeMap<u32, u32> {
    let mut worst = BTreeMap::<u32, u32>::new();
    for (cq, requests) in qps.iter().flat_map(QpModel::loads) {
        let sum = worst.entry(cq).or_default();
        *sum = requests.into_iter().fold(*sum, u32::saturating_add);
    }
    worst
}

impl ErrorModel {
    fn of(lang: Lang, context: &qpc::Image) -> Option<Self> {
        use qpc::Field as F;
        let number = |field| context.get(field) as u32;
        let (status, check) = (number(F::FirstStatus), number(F::FirstCheck));
        if status == 0 && check == 0 {
            return None;
        }
        let (psn, wr_id) = (number(F::FirstPsn), context.get(F::FirstWrId));
        let known = WcStatus::try_from(status).ok().zip(Check::try_from(check).ok());
        let (what, remedy) = match known {
            Some((status, check)) => {
                let cause = FirstCause {
                    status,
                    check,
                    psn: Some(psn).filter(|psn| *psn != 0),
                    wr_id: Some(wr_id).filter(|id| *id != 0),
                };
                let said = explain_first_cause_in(lang, number(F::Qpn), &cause);
                (said.what, said.remedy)
            }
            None => {
                (both!(lang, "status {status}, check {check}", "状态 {status}，检查 {check}"), String::new())
            }
        };
        let (status_name, check) = (name::<WcStatus>(status), words::<Check>(lang, check));
        Some(Self { status, status_name, check, psn, wr_id, what, remedy })
    }
}

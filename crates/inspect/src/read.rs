//! Reading the segments of all processes of this user.

use std::collections::BTreeMap;

use glassnic_explain::{Lang, both};
use glassnic_verbs::inspect::{Folder, NicView, monotonic_ns};
use glassnic_verbs::object::{self, Head, Kind};
use glassnic_verbs::{GID_TABLE_LEN, Words};
use glassnic_verbs::{driver, qpc};
use glassnic_wire::command::CommandRecord;

use crate::model::{
    AhModel, AsyncModel, ChannelModel, CqModel, ForkedUse, GidModel, LimitsModel, MrModel, MwModel, NicModel,
    NicState, ObjectModel, PdModel, QpModel, Site, SrqModel, worst_cases,
};

/// A NIC at a moment, and what its flight recorder had then.
#[derive(Debug)]
pub struct NicReading {
    /// What there is.
    pub model: NicModel,
    /// What happened, oldest first.
    pub records: Vec<CommandRecord>,
    /// QPNs and places of the records about them, in this order.
    by_qpn: Vec<(u32, usize)>,
}

impl NicReading {
    /// Reads a NIC, for words of this language.
    #[must_use]
    pub fn of(lang: Lang, view: &NicView, segment: &str, now_ns: u64) -> Self {
        let (model, records) = (NicModel::of(lang, view, segment, now_ns), view.records(1));
        let mut by_qpn: Vec<_> = records.iter().enumerate().map(|(at, record)| (record.qpn(), at)).collect();
        by_qpn.sort_unstable();
        Self { model, records, by_qpn }
    }

    /// What happened to a QP, oldest first.
    pub fn records_of(&self, qpn: u32) -> impl DoubleEndedIterator<Item = &CommandRecord> {
        let places = range_of(&self.by_qpn, qpn, |(of, _)| *of).iter();
        places.filter_map(|(_, at)| self.records.get(*at))
    }
}

/// The entries of a QPN in a list that is sorted by it.
fn range_of<T>(sorted: &[T], qpn: u32, of: impl Fn(&T) -> u32) -> &[T] {
    let from = sorted.partition_point(|entry| of(entry) < qpn);
    let rest = sorted.get(from..).unwrap_or_default();
    let len = rest.partition_point(|entry| of(entry) == qpn);
    rest.get(..len).unwrap_or_default()
}

/// All NICs of this user on this host.
#[derive(Debug)]
pub struct Host {
    /// Each NIC, by pid and age.
    pub nics: Vec<NicReading>,
    /// When they were read: monotonic clock, nanoseconds.
    pub now_ns: u64,
    /// QPNs and places of the QPs that have them: which NIC, which of its QPs; in this order.
    by_qpn: Vec<(u32, usize, usize)>,
}

impl Host {
    /// Reads all of them, for words of this language.
    ///
    /// # Errors
    /// In a line, why the folder of this host's processes cannot be read.
    pub fn read(lang: Lang) -> Result<Self, String> {
        let folder = Folder::open().map_err(|error| error.in_words(lang))?;
        let names = folder.segments().map_err(|error| {
            both!(lang, "{}: {}", "{}：{}", folder.path().display(), error.in_words(lang))
        })?;
        let now_ns = monotonic_ns();
        // One that has gone since, or is being made, is none.
        let views = names.iter().filter_map(|name| Some((name, folder.nic(name).ok()??)));
        Ok(Self::of(views.map(|(name, view)| NicReading::of(lang, &view, name, now_ns)).collect(), now_ns))
    }

    /// Of NICs that were read at this time.
    #[must_use]
    pub fn of(mut nics: Vec<NicReading>, now_ns: u64) -> Self {
        nics.sort_by_key(|nic| (nic.model.pid, std::cmp::Reverse(nic.model.age_ns)));
        let places = nics.iter().enumerate().flat_map(|(nic, reading)| {
            reading.model.qps.iter().enumerate().map(move |(at, qp)| (qp.qpn, nic, at))
        });
        let mut by_qpn: Vec<_> = places.collect();
        by_qpn.sort_unstable();
        let mut host = Self { nics, now_ns, by_qpn };
        host.find_peers();
        host
    }

    /// Numbers are unique among the processes of a user: the other end is the one that is meant, and means us.
    fn find_peers(&mut self) {
        let pid = |qp: &QpModel| {
            let means_us = |peer: &QpModel| peer.peer.as_ref().is_some_and(|back| back.qpn == qp.qpn);
            let found = self.qps_of(qp.peer.as_ref()?.qpn).find(|(_, peer)| means_us(peer));
            found.map(|(nic, _)| nic.model.pid)
        };
        let all: Vec<_> = self.nics.iter().flat_map(|nic| &nic.model.qps).map(pid).collect();
        let qps = self.nics.iter_mut().flat_map(|nic| &mut nic.model.qps);
        for (peer, pid) in qps.zip(all).filter_map(|(qp, pid)| Some((qp.peer.as_mut()?, pid))) {
            peer.pid = pid;
        }
    }

    /// The QPs of a number, in the order of [`Self::nics`].
    pub fn qps_of(&self, qpn: u32) -> impl Iterator<Item = (&NicReading, &QpModel)> {
        range_of(&self.by_qpn, qpn, |(of, ..)| *of).iter().filter_map(|(_, nic, at)| {
            let nic = self.nics.get(*nic)?;
            Some((nic, nic.model.qps.get(*at)?))
        })
    }
}

impl NicModel {
    /// Reads a NIC, for words of this language.
    #[must_use]
    pub fn of(lang: Lang, view: &NicView, segment: &str, now_ns: u64) -> Self {
        let mut sites = BTreeMap::<u64, Site>::new();
        let mut site = |number: u64| {
            let read = || {
                let text = view.site(number as u32).unwrap_or_default();
                text.lines().map(str::to_owned).collect::<Vec<_>>().into()
            };
            sites.entry(number).or_insert_with(read).clone()
        };
        let state = match (view.is_open(), view.is_alive(), view.has_exited()) {
            (false, ..) => NicState::Closed,
            (true, true, _) => NicState::Open,
            (true, false, true) => NicState::Exited,
            (true, false, false) => NicState::Crashed,
        };
        let qps =
            view.qps().map(|qp| QpModel::new(lang, &qp, site(qp.driver.get(driver::Field::Site)), now_ns));
        let mut qps: Vec<_> = qps.collect();
        qps.sort_by_key(|qp| (qp.context.get(qpc::Field::CreatedNs), qp.qpn));
        let mut objects = |kind| {
            let with_head = |image: object::Image| {
                let head = ObjectModel::new(&image, site(image.get(Head::Site)), now_ns);
                (image, head)
            };
            view.objects(kind).map(with_head).collect::<Vec<_>>()
        };
        let worst = worst_cases(&qps);
        let cq = |(image, head): (object::Image, ObjectModel)| {
            let worst_case = worst.get(&head.handle).copied().unwrap_or(0);
            CqModel::new(&image, head, worst_case)
        };
        let cqs = objects(Kind::Cq).into_iter().map(cq).collect();
        Self {
            pid: view.pid(),
            command: view.command(),
            device: view.device(),
            segment: segment.to_owned(),
            state,
            age_ns: now_ns.saturating_sub(view.opened_ns()),
            qps,
            pds: objects(Kind::Pd).into_iter().map(|(_, object)| PdModel { object }).collect(),
            cqs,
            mrs: objects(Kind::Mr).into_iter().map(|(image, head)| MrModel::new(&image, head)).collect(),
            mws: objects(Kind::Mw).into_iter().map(|(image, head)| MwModel::new(&image, head)).collect(),
            srqs: objects(Kind::Srq).into_iter().map(|(image, head)| SrqModel::new(&image, head)).collect(),
            ahs: objects(Kind::Ah).into_iter().map(|(image, head)| AhModel::new(&image, head)).collect(),
            channels: objects(Kind::Channel)
                .into_iter()
                .map(|(image, head)| ChannelModel::new(&image, head, now_ns))
                .collect(),
            asynchronous: asynchronous(view, now_ns),
            forked_use: Some(view.forked_use())
                .filter(|(_, times)| *times != 0)
                .map(|(child, times)| ForkedUse { child, times }),
            write_back_ns: view.write_back_ns(),
            run: view.run(),
            limits: limits(view),
            gids: gids(view),
        }
    }
}

fn asynchronous(view: &NicView, now_ns: u64) -> AsyncModel {
    let (waiting, raised, since) = view.asynchronous();
    let waiting_ns = (waiting > 0 && since > 0).then(|| now_ns.saturating_sub(since));
    AsyncModel { waiting, raised, waiting_ns }
}

fn limits(view: &NicView) -> LimitsModel {
    let layout = view.layout();
    // A table of handles never hands out its last entry.
    let of = |kind| layout.object_slots.get(kind as usize).map_or(0, |slots| slots.saturating_sub(1));
    LimitsModel {
        max_qp: layout.qp_slots,
        max_cq: of(Kind::Cq),
        max_mr: of(Kind::Mr),
        max_pd: of(Kind::Pd),
        max_ah: of(Kind::Ah),
        max_srq: of(Kind::Srq),
    }
}

fn gids(view: &NicView) -> Vec<GidModel> {
    let all = (0..GID_TABLE_LEN).map(|index| GidModel { index, gid: view.gid(index) });
    all.filter(|entry| entry.gid != [0; 16]).collect()
}

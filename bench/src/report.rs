//! What was measured, what it is compared with, and which floors it must reach.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::pair::Scale;
use crate::stats::{Figure, LARGE, Measure, SMALL, median};

/// A link.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Group {
    /// Both QPs in one process.
    Memory,
    /// Two processes of this host.
    Shm,
    /// RoCEv2 on the loopback interface.
    Udp,
}

impl Group {
    /// All of them, in the order of the table.
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Shm, Self::Udp];

    /// A line about it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Memory => "memory: both queue pairs in one process",
            Self::Shm => "shm: two processes of this host, a core each",
            Self::Udp => "udp: RoCEv2 on loopback, two processes, a core each",
        }
    }
}

/// Whose figures a row has.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// What the machine can do.
    Limit,
    /// Ours.
    #[serde(rename = "glassnic")]
    GlassNic,
    /// Another project's.
    Other,
}

/// One operation of one program over one link, at all sizes.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) link: Group,
    pub(crate) who: &'static str,
    pub(crate) kind: Kind,
    pub(crate) op: String,
    /// By size, a figure of each sweep.
    sweeps: BTreeMap<usize, Vec<Figure>>,
}

impl Row {
    /// The medians over the sweeps, if this size was measured: of the figure, and of a latency's 99th percentile.
    pub(crate) fn figure(&self, size: usize) -> Option<(f64, Option<f64>)> {
        let figures = self.sweeps.get(&size)?;
        let p99 = median(figures.iter().filter_map(|f| f.p99_ns()));
        Some((median(figures.iter().map(|f| f.value()))?, p99))
    }

    /// The figure of each sweep.
    pub(crate) fn each_sweep(&self, size: usize) -> Vec<f64> {
        self.sweeps.get(&size).into_iter().flatten().map(|f| f.value()).collect()
    }

    /// A READ takes the way there and back, and is compared with as much; everything else is counted by half a round trip.
    pub(crate) fn is_round_trip(&self) -> bool {
        self.op.starts_with("READ")
    }
}

/// A program that gave no figures.
#[derive(Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Missing {
    pub(crate) link: Group,
    pub(crate) who: &'static str,
    pub(crate) why: String,
}

/// What a figure must reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// At most that many nanoseconds.
    Ns(f64),
    /// At least that many bytes per second.
    BytesPerS(f64),
    /// At most that many times the limit's latency of the same run.
    TimesLimit(f64),
    /// At most that many times our own latency without the flight recorder, in the same run.
    TimesUnrecorded(f64),
}

/// The name of GlassNIC without its flight recorder.
pub(crate) const UNRECORDED: &str = "GlassNIC, recorder off";

/// A floor of GlassNIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    pub(crate) link: Group,
    pub(crate) op: &'static str,
    pub(crate) size: usize,
    pub(crate) bound: Bound,
}

/// All floors.
pub(crate) const FLOORS: [Floor; 5] = [
    Floor { link: Group::Shm, op: "SEND", size: SMALL, bound: Bound::Ns(3000.0) },
    Floor { link: Group::Shm, op: "SEND", size: SMALL, bound: Bound::TimesUnrecorded(1.03) },
    Floor { link: Group::Shm, op: "WRITE", size: LARGE[1], bound: Bound::BytesPerS(4e9) },
    Floor { link: Group::Udp, op: "SEND", size: SMALL, bound: Bound::TimesLimit(2.0) },
    Floor { link: Group::Udp, op: "WRITE", size: LARGE[1], bound: Bound::BytesPerS(1e9) },
];

/// All that a run measured.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) scale: Scale,
    rows: Vec<Row>,
    pub(crate) missing: Vec<Missing>,
}

impl Report {
    pub(crate) fn new(scale: Scale) -> Self {
        Self { scale, rows: Vec::new(), missing: Vec::new() }
    }

    /// Adds the figures of a sweep, or notes why there are none.
    pub(crate) fn add(&mut self, link: Group, who: &'static str, kind: Kind, measures: Result<Vec<Measure>>) {
        let measures = match measures {
            Ok(measures) => measures,
            Err(error) => {
                let missing = Missing { link, who, why: format!("{error:#}") };
                if !self.missing.contains(&missing) {
                    eprintln!("no figures of {who}: {}", missing.why);
                    self.missing.push(missing);
                }
                return;
            }
        };
        for measure in measures {
            let same = |row: &Row| row.link == link && row.who == who && row.op == measure.op;
            let at = self.rows.iter().position(same).unwrap_or_else(|| {
                self.rows.push(Row { link, who, kind, op: measure.op.clone(), sweeps: BTreeMap::new() });
                self.rows.len() - 1
            });
            self.rows[at].sweeps.entry(measure.size).or_default().push(measure.figure);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows of a link, in the order in which they were first measured.
    pub(crate) fn rows(&self, link: Group) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.link == link)
    }

    /// What the machine can do: the least latency of those that hand a message over, the greatest bandwidth.
    pub(crate) fn limit(&self, link: Group, size: usize) -> Option<f64> {
        let limits = self.rows(link).filter(|row| row.kind == Kind::Limit);
        if size == SMALL {
            // A copy that nobody is told of is not a message.
            let messages = limits.filter(|row| row.op == "message");
            messages.filter_map(|row| row.figure(size)).map(|(value, _)| value).reduce(f64::min)
        } else {
            limits.filter_map(|row| row.figure(size)).map(|(value, _)| value).reduce(f64::max)
        }
    }

    /// The figure over the limit's: how many times the latency, which part of the bandwidth.
    pub(crate) fn ratio(&self, row: &Row, size: usize) -> Option<f64> {
        let limit = self.limit(row.link, size)?;
        let trips = if size == SMALL && row.is_round_trip() { 2.0 } else { 1.0 };
        Some(row.figure(size)?.0 / (limit * trips))
    }

    /// Whether GlassNIC reaches a floor; `None` where that was not measured.
    pub(crate) fn is_met(&self, floor: &Floor) -> Option<bool> {
        let row = self.rows(floor.link).find(|row| row.kind == Kind::GlassNic && row.op == floor.op)?;
        let (value, _) = row.figure(floor.size)?;
        Some(match floor.bound {
            Bound::Ns(most) => value <= most,
            Bound::BytesPerS(least) => value >= least,
            Bound::TimesLimit(most) => self.ratio(row, floor.size)? <= most,
            Bound::TimesUnrecorded(most) => {
                let mut rows = self.rows(floor.link);
                let off = rows.find(|row| row.who == UNRECORDED && row.op == floor.op)?;
                value <= most * off.figure(floor.size)?.0
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lat(op: &str, ns: f64) -> Measure {
        let figure = Figure::Latency { median_ns: ns, p99_ns: Some(2.0 * ns) };
        Measure { op: op.into(), size: SMALL, figure }
    }

    fn band(op: &str, bytes_per_s: f64) -> Measure {
        Measure { op: op.into(), size: LARGE[1], figure: Figure::Bandwidth { bytes_per_s } }
    }

    #[test]
    fn floors_are_judged_by_the_median_of_the_sweeps_and_by_the_limit_of_the_run() {
        let mut report = Report::new(Scale::Full);
        for (plain, send, write) in [(100.0, 900.0, 2e9), (200.0, 399.0, 0.5e9), (300.0, 398.0, 1.5e9)] {
            report.add(Group::Udp, "UDP", Kind::Limit, Ok(vec![lat("message", plain), band("message", 6e9)]));
            report.add(Group::Udp, "GSO", Kind::Limit, Ok(vec![band("message", 3e9), lat("copy", 1.0)]));
            let ours = vec![lat("SEND", send), lat("READ", 600.0), band("WRITE", write)];
            report.add(Group::Udp, "GlassNIC", Kind::GlassNic, Ok(ours));
        }
        assert_eq!(report.limit(Group::Udp, SMALL), Some(200.0));
        assert_eq!(report.limit(Group::Udp, LARGE[1]), Some(6e9));
        let nothing = [None, None, None];
        assert_eq!(FLOORS.map(|floor| report.is_met(&floor))[..3], nothing);
        assert_eq!(FLOORS.map(|floor| report.is_met(&floor))[3..], [Some(true), Some(true)]);
        let read = report.rows(Group::Udp).find(|row| row.op == "READ").unwrap();
        assert_eq!(report.ratio(read, SMALL), Some(1.5));
        let slow = vec![lat("SEND", 401.0), band("WRITE", 0.9e9)];
        for _ in 0..4 {
            report.add(Group::Udp, "GlassNIC", Kind::GlassNic, Ok(slow.clone()));
        }
        assert_eq!(FLOORS.map(|floor| report.is_met(&floor))[3..], [Some(false), Some(false)]);
    }

    #[test]
    fn the_recorder_is_compared_with_none() {
        let mut report = Report::new(Scale::Full);
        report.add(Group::Shm, UNRECORDED, Kind::Other, Ok(vec![lat("SEND", 1000.0)]));
        report.add(Group::Shm, "GlassNIC", Kind::GlassNic, Ok(vec![lat("SEND", 1029.0)]));
        assert_eq!(report.is_met(&FLOORS[1]), Some(true));
        report.add(Group::Shm, "GlassNIC", Kind::GlassNic, Ok(vec![lat("SEND", 1032.0); 2]));
        assert_eq!(report.is_met(&FLOORS[1]), Some(false));
    }
}

//! Lists as text: a line for each object, columns as wide as they need to be.

use unicode_width::UnicodeWidthStr;

use crate::decode::span;
use crate::model::{NicModel, NicState, ObjectModel, QpModel};

/// The processes with a NIC.
#[must_use]
pub fn ps(nics: &[&NicModel]) -> String {
    let mut rows = vec![words(&["PID", "COMMAND", "DEVICE", "STATE", "AGE", "QPS", "SEGMENT"])];
    rows.extend(nics.iter().map(|nic| {
        vec![
            nic.pid.to_string(),
            nic.command.clone(),
            nic.device.clone(),
            nic.state.name().to_owned(),
            span(nic.age_ns),
            states(&nic.qps),
            nic.segment.clone(),
        ]
    }));
    table(&rows, "no process of this user has a NIC; glassnic run starts a program on one")
}

/// `2 RTS, 1 INIT`, in the order in which states come up.
fn states(qps: &[QpModel]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for qp in qps {
        match counts.iter_mut().find(|(state, _)| *state == qp.state) {
            Some((_, count)) => *count += 1,
            None => counts.push((&qp.state, 1)),
        }
    }
    let parts: Vec<_> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    if parts.is_empty() { "none".into() } else { parts.join(", ") }
}

/// The QPs.
#[must_use]
pub fn qps(nics: &[&NicModel]) -> String {
    let head = ["QPN", "TYPE", "STATE", "PID", "SQ", "RQ", "AGE", "PEER", "FIRST ERROR"];
    let row = |qp: &QpModel| {
        let peer = match &qp.peer {
            Some(peer) => format!("{:#x} at {}", peer.qpn, peer.gid),
            None => "-".into(),
        };
        vec![
            format!("{:#x}", qp.qpn),
            qp.qp_type.clone(),
            qp.state.clone(),
            String::new(),
            format!("{}/{}", qp.sq.used, qp.sq.depth),
            format!("{}/{}", qp.rq.used, qp.rq.depth),
            span(qp.age_ns),
            peer,
            qp.first_error.as_ref().map_or("-".into(), |error| error.check.clone()),
        ]
    };
    let mut rows = vec![words(&head)];
    for nic in nics {
        for qp in &nic.qps {
            let mut cells = row(qp);
            cells[3] = process(nic);
            rows.push(cells);
        }
    }
    table(&rows, "no QP")
}

/// The completion queues.
#[must_use]
pub fn cqs(nics: &[&NicModel]) -> String {
    let head = ["WAITING", "DEPTH", "CHANNEL", "ARMED", "EVENTS", "NOT ACKED", "OVERRUN"];
    let cells = nics.iter().flat_map(|nic| nic.cqs.iter().map(move |cq| (*nic, cq)));
    objects(
        "CQ",
        &head,
        cells.map(|(nic, cq)| {
            let channel = if cq.channel == 0 { "-".into() } else { format!("{:#x}", cq.channel) };
            let cells = vec![
                cq.waiting.to_string(),
                cq.depth.to_string(),
                channel,
                cq.armed.to_owned(),
                cq.raised.to_string(),
                cq.unacknowledged.to_string(),
                if cq.overrun { "yes" } else { "no" }.to_owned(),
            ];
            (nic, &cq.object, cells)
        }),
    )
}

/// The memory regions.
#[must_use]
pub fn mrs(nics: &[&NicModel]) -> String {
    let head = ["ADDR", "LENGTH", "LKEY", "RKEY", "IOVA", "ACCESS"];
    let cells = nics.iter().flat_map(|nic| nic.mrs.iter().map(move |mr| (*nic, mr)));
    objects(
        "MR",
        &head,
        cells.map(|(nic, mr)| {
            let cells = vec![
                format!("{:#x}", mr.addr),
                mr.length.to_string(),
                format!("{:#x}", mr.lkey),
                format!("{:#x}", mr.rkey),
                format!("{:#x}", mr.iova),
                if mr.access.is_empty() { "read only".to_owned() } else { mr.access.join("|") },
            ];
            (nic, &mr.object, cells)
        }),
    )
}

/// The protection domains.
#[must_use]
pub fn pds(nics: &[&NicModel]) -> String {
    let head = ["QPS", "MRS"];
    let cells = nics.iter().flat_map(|nic| nic.pds.iter().map(move |pd| (*nic, pd)));
    objects(
        "PD",
        &head,
        cells.map(|(nic, pd)| {
            let handle = pd.object.handle;
            let of_pd = |qp: &&QpModel| qp.context.get(glassnic_verbs::qpc::Field::Pd) == u64::from(handle);
            let qps = nic.qps.iter().filter(of_pd).count();
            let mrs = nic.mrs.iter().filter(|mr| mr.object.pd == handle).count();
            (nic, &pd.object, vec![qps.to_string(), mrs.to_string()])
        }),
    )
}

/// The shared receive queues.
#[must_use]
pub fn srqs(nics: &[&NicModel]) -> String {
    let head = ["POSTED", "DEPTH", "MAX SGE", "LIMIT"];
    let cells = nics.iter().flat_map(|nic| nic.srqs.iter().map(move |srq| (*nic, srq)));
    objects(
        "SRQ",
        &head,
        cells.map(|(nic, srq)| {
            let cells = [srq.posted, srq.depth, srq.max_sge, srq.limit].map(|n| n.to_string()).to_vec();
            (nic, &srq.object, cells)
        }),
    )
}

/// The address handles.
#[must_use]
pub fn ahs(nics: &[&NicModel]) -> String {
    let head = ["SGID", "PORT", "HOPS", "DGID"];
    let cells = nics.iter().flat_map(|nic| nic.ahs.iter().map(move |ah| (*nic, ah)));
    objects(
        "AH",
        &head,
        cells.map(|(nic, ah)| {
            let cells = vec![
                ah.sgid_index.to_string(),
                ah.port_num.to_string(),
                ah.hop_limit.to_string(),
                ah.dgid.clone(),
            ];
            (nic, &ah.object, cells)
        }),
    )
}

/// Objects of one kind: what all have, and then their own columns.
fn objects<'a>(
    kind: &str,
    head: &[&str],
    rows: impl Iterator<Item = (&'a NicModel, &'a ObjectModel, Vec<String>)>,
) -> String {
    let mut all = vec![words(&[&[kind, "PID", "PD", "AGE"], head].concat())];
    for (nic, object, own) in rows {
        let pd = if object.pd == 0 { "-".into() } else { format!("{:#x}", object.pd) };
        let mut cells = vec![format!("{:#x}", object.handle), process(nic), pd, span(object.age_ns)];
        cells.extend(own);
        all.push(cells);
    }
    table(&all, &format!("no {kind}"))
}

/// The process, and what became of it where it is no more.
pub(crate) fn process(nic: &NicModel) -> String {
    match nic.state {
        NicState::Open => nic.pid.to_string(),
        gone => format!("{} ({})", nic.pid, gone.name()),
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A cell filled up with spaces: a Chinese character takes two columns.
pub(crate) fn pad(cell: &str, width: usize) -> String {
    format!("{cell}{}", " ".repeat(width.saturating_sub(cell.width())))
}

/// Rows with a head, in columns; `none` where there is only the head.
pub(crate) fn table(rows: &[Vec<String>], none: &str) -> String {
    if rows.len() < 2 {
        return format!("{none}\n");
    }
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.width()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| pad(cell, *width)).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

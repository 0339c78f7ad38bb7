//! Lists as text: a line for each object, columns as wide as they need to be.

use std::collections::BTreeMap;

use glassnic_explain::{Lang, both};
use glassnic_verbs::qpc::Field;
use unicode_width::UnicodeWidthStr;

use crate::decode::{bracketed, span};
use crate::model::{CqModel, NicModel, NicState, ObjectModel, QpModel};

/// The processes with a NIC.
#[must_use]
pub fn ps(lang: Lang, nics: &[&NicModel]) -> String {
    let mut rows = vec![words(match lang {
        Lang::Zh => &["PID", "命令", "设备", "状态", "已存在", "QP", "段"],
        _ => &["PID", "COMMAND", "DEVICE", "STATE", "AGE", "QPS", "SEGMENT"],
    })];
    rows.extend(nics.iter().map(|nic| {
        vec![
            nic.pid.to_string(),
            nic.command.clone(),
            nic.device.clone(),
            nic.state.in_words(lang).to_owned(),
            span(nic.age_ns),
            states(lang, &nic.qps),
            nic.segment.clone(),
        ]
    }));
    let none = lang.pick(
        "no process of this user has a NIC; glassnic run starts a program on one",
        "当前用户没有进程拥有 NIC；用 glassnic run 在 NIC 上启动程序",
    );
    table(&rows, none)
}

/// `2 RTS, 1 INIT`, in the order in which states come up.
fn states(lang: Lang, qps: &[QpModel]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for qp in qps {
        match counts.iter_mut().find(|(state, _)| *state == qp.state) {
            Some((_, count)) => *count += 1,
            None => counts.push((&qp.state, 1)),
        }
    }
    let parts: Vec<_> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    if parts.is_empty() { lang.pick("none", "无").into() } else { parts.join(", ") }
}

/// The QPs.
#[must_use]
pub fn qps(lang: Lang, nics: &[&NicModel]) -> String {
    let head = match lang {
        Lang::Zh => ["QPN", "类型", "状态", "PID", "SQ", "RQ", "已存在", "对端", "首个错误"],
        _ => ["QPN", "TYPE", "STATE", "PID", "SQ", "RQ", "AGE", "PEER", "FIRST ERROR"],
    };
    let row = |qp: &QpModel| {
        let peer = match &qp.peer {
            Some(peer) => both!(lang, "{:#x} at {}", "{:#x}，{}", peer.qpn, peer.gid),
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
            cells[3] = process(lang, nic);
            rows.push(cells);
        }
    }
    table(&rows, lang.pick("no QP", "没有 QP"))
}

/// The completion queues.
#[must_use]
pub fn cqs(lang: Lang, nics: &[&NicModel]) -> String {
    let head = match lang {
        Lang::Zh => ["待取", "深度", "最坏", "通道", "已布防", "事件", "未确认", "溢出"],
        _ => ["WAITING", "DEPTH", "WORST", "CHANNEL", "ARMED", "EVENTS", "NOT ACKED", "OVERRUN"],
    };
    let cells = nics.iter().flat_map(|nic| nic.cqs.iter().map(move |cq| (*nic, cq)));
    objects(
        lang,
        "CQ",
        &head,
        cells.map(|(nic, cq)| {
            let channel = if cq.channel == 0 { "-".into() } else { format!("{:#x}", cq.channel) };
            let cells = vec![
                cq.waiting.to_string(),
                cq.depth.to_string(),
                cq.worst_case.to_string(),
                channel,
                armed(lang, cq.armed).to_owned(),
                events(cq),
                cq.unacknowledged.to_string(),
                overrun(lang, cq),
            ];
            (nic, &cq.object, cells)
        }),
    )
}

/// The events of a CQ, and how they are held back where they are.
fn events(cq: &CqModel) -> String {
    match (cq.moderate_count, cq.moderate_period_us) {
        (0 | 1, _) | (_, 0) => cq.raised.to_string(),
        (count, period) => format!("{} (1/{count}, {period} µs)", cq.raised),
    }
}

/// Whether a CQ has overrun, or what it lost as it ignores that it does.
fn overrun(lang: Lang, cq: &CqModel) -> String {
    match cq.lost {
        0 if cq.overrun => lang.pick("yes", "是").to_owned(),
        0 => lang.pick("no", "否").to_owned(),
        lost => both!(lang, "lost {lost}", "丢失 {lost}"),
    }
}

/// What a CQ is armed for.
fn armed(lang: Lang, armed: &str) -> &str {
    match armed {
        "none" => lang.pick("none", "否"),
        "solicited" => lang.pick("solicited", "仅 solicited"),
        "next" => lang.pick("next", "下一个完成"),
        other => other,
    }
}

/// The memory regions.
#[must_use]
pub fn mrs(lang: Lang, nics: &[&NicModel]) -> String {
    let head = match lang {
        Lang::Zh => ["地址", "长度", "LKEY", "RKEY", "IOVA", "权限"],
        _ => ["ADDR", "LENGTH", "LKEY", "RKEY", "IOVA", "ACCESS"],
    };
    let cells = nics.iter().flat_map(|nic| nic.mrs.iter().map(move |mr| (*nic, mr)));
    objects(
        lang,
        "MR",
        &head,
        cells.map(|(nic, mr)| {
            let cells = vec![
                format!("{:#x}", mr.addr),
                mr.length.to_string(),
                format!("{:#x}", mr.lkey),
                format!("{:#x}", mr.rkey),
                format!("{:#x}", mr.iova),
                if mr.access.is_empty() {
                    lang.pick("read only", "只读").to_owned()
                } else {
                    mr.access.join("|")
                },
            ];
            (nic, &mr.object, cells)
        }),
    )
}

/// The memory windows.
#[must_use]
pub fn mws(lang: Lang, nics: &[&NicModel]) -> String {
    let head = match lang {
        Lang::Zh => ["类型", "RKEY", "MR", "地址", "长度", "QP", "权限"],
        _ => ["TYPE", "RKEY", "MR", "ADDR", "LENGTH", "QP", "ACCESS"],
    };
    let cells = nics.iter().flat_map(|nic| nic.mws.iter().map(move |mw| (*nic, mw)));
    objects(
        lang,
        "MW",
        &head,
        cells.map(|(nic, mw)| {
            let number = |n: Option<u32>| n.map_or_else(|| "-".to_owned(), |n| format!("{n:#x}"));
            let cells = vec![
                mw.mw_type.to_string(),
                format!("{:#x}", mw.rkey),
                number(mw.mr),
                format!("{:#x}", mw.addr),
                mw.length.to_string(),
                number(mw.qpn),
                if mw.mr.is_some() {
                    mw.access.join("|")
                } else {
                    lang.pick("not bound", "未绑定").to_owned()
                },
            ];
            (nic, &mw.object, cells)
        }),
    )
}

/// The protection domains.
#[must_use]
pub fn pds(lang: Lang, nics: &[&NicModel]) -> String {
    let head = ["QPS", "MRS"];
    let cells = nics.iter().flat_map(|nic| {
        let mut used = BTreeMap::<u32, [usize; 2]>::new();
        for qp in &nic.qps {
            used.entry(qp.context.get(Field::Pd) as u32).or_default()[0] += 1;
        }
        for mr in &nic.mrs {
            used.entry(mr.object.pd).or_default()[1] += 1;
        }
        nic.pds.iter().map(move |pd| {
            let used = used.get(&pd.object.handle).copied().unwrap_or_default();
            (*nic, &pd.object, used.map(|n| n.to_string()).to_vec())
        })
    });
    objects(lang, "PD", &head, cells)
}

/// The shared receive queues.
#[must_use]
pub fn srqs(lang: Lang, nics: &[&NicModel]) -> String {
    let head = match lang {
        Lang::Zh => ["已提交", "深度", "最多 SGE", "水线"],
        _ => ["POSTED", "DEPTH", "MAX SGE", "LIMIT"],
    };
    let cells = nics.iter().flat_map(|nic| nic.srqs.iter().map(move |srq| (*nic, srq)));
    objects(
        lang,
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
pub fn ahs(lang: Lang, nics: &[&NicModel]) -> String {
    let head = match lang {
        Lang::Zh => ["SGID", "端口", "跳数", "DGID"],
        _ => ["SGID", "PORT", "HOPS", "DGID"],
    };
    let cells = nics.iter().flat_map(|nic| nic.ahs.iter().map(move |ah| (*nic, ah)));
    objects(
        lang,
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
    lang: Lang,
    kind: &str,
    head: &[&str],
    rows: impl Iterator<Item = (&'a NicModel, &'a ObjectModel, Vec<String>)>,
) -> String {
    let mut all = vec![words(&[&[kind, "PID", "PD", lang.pick("AGE", "已存在")], head].concat())];
    for (nic, object, own) in rows {
        let pd = if object.pd == 0 { "-".into() } else { format!("{:#x}", object.pd) };
        let mut cells = vec![format!("{:#x}", object.handle), process(lang, nic), pd, span(object.age_ns)];
        cells.extend(own);
        all.push(cells);
    }
    table(&all, &both!(lang, "no {kind}", "没有 {kind}"))
}

/// The process, and what became of it where it is no more.
pub(crate) fn process(lang: Lang, nic: &NicModel) -> String {
    match nic.state {
        NicState::Open => nic.pid.to_string(),
        gone => bracketed(lang, &nic.pid.to_string(), gone.in_words(lang)),
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A cell filled up with spaces: a Chinese character takes two columns.
#[must_use]
pub fn pad(cell: &str, width: usize) -> String {
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

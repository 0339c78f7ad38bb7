//! One QP as text.

use std::fmt::Write;

use glassnic_explain::{Lang, both};

use crate::decode::{FieldModel, ago, span};
use crate::model::{NicModel, QpModel};
use crate::text::{process, table};
use crate::timeline::Entry;

/// `QPN: 0x1234 State: RTS SQ WQE count: 8/16 Last error: None`: the line that scripts may rely on.
#[must_use]
pub fn headline(qp: &QpModel) -> String {
    let QpModel { qpn, state, sq, .. } = qp;
    let error = qp.first_error.as_ref().map_or("None", |error| &error.status_name);
    format!("QPN: {qpn:#x} State: {state} SQ WQE count: {}/{} Last error: {error}", sq.used, sq.depth)
}

/// What the device and the driver know of a QP, side by side, and every field of both.
#[must_use]
pub fn show(lang: Lang, nic: &NicModel, qp: &QpModel) -> String {
    let mut out = headline(qp);
    let NicModel { command, device, segment, .. } = nic;
    let (qp_type, process, age) = (&qp.qp_type, process(lang, nic), ago(lang, qp.age_ns));
    let whose = both!(
        lang,
        "{qp_type} on {device}, process {process} {command}, segment {segment}; created {age}",
        "{qp_type}，设备 {device}，进程 {process} {command}，段 {segment}；创建于 {age}"
    );
    out.push('\n');
    out.push_str(&whose);
    out.push('\n');
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    for frame in qp.site.iter() {
        line(both!(lang, "  at {frame}", "  位于 {frame}"));
    }
    if let Some(peer) = &qp.peer {
        let whose = match peer.pid {
            Some(pid) => both!(lang, "process {pid}", "进程 {pid}"),
            None => lang.pick("not on this host, or gone", "不在本机，或已不存在").into(),
        };
        line(both!(lang, "peer: QP {:#x} at {}, {whose}", "对端：QP {:#x}，{}，{whose}", peer.qpn, peer.gid));
    }
    if let Some(error) = &qp.first_error {
        line(both!(lang, "first error: {}; {}", "首个错误：{}；{}", error.what, error.remedy));
    }
    out.push('\n');
    let (on_device, of_driver) = (qp.device(lang), qp.driver(lang));
    out.push_str(&table(&side_by_side(lang, &on_device, &of_driver), ""));
    out.push_str(lang.pick("\ndevice: every field of the QP context\n", "\n设备：QP 上下文的每个字段\n"));
    fields(&mut out, &on_device);
    out.push_str(lang.pick("\ndriver: every field of its block\n", "\n驱动：其数据块的每个字段\n"));
    fields(&mut out, &of_driver);
    out
}

/// What both sides have a word on. They may differ: the driver says what calls asked for and polling gave back, the
/// device what it does.
fn side_by_side(lang: Lang, on_device: &[FieldModel], of_driver: &[FieldModel]) -> Vec<Vec<String>> {
    let device = |name| decoded(on_device, name);
    let driver = |name| decoded(of_driver, name);
    let posted_less_released = |posted, released| {
        let number = |name| value(of_driver, name) as u32;
        // Both wrap in 32 bits.
        let used = number(posted).wrapping_sub(number(released));
        let (posted, released) = (number(posted), number(released));
        both!(
            lang,
            "{used} ({posted} posted, {released} given back)",
            "{used}（提交 {posted}，归还 {released}）"
        )
    };
    let row = |what: &str, device: String, driver: String| vec![what.to_owned(), device, driver];
    vec![
        row(
            "",
            lang.pick("DEVICE (QP context)", "设备（QP 上下文）").into(),
            lang.pick("DRIVER (its block)", "驱动（其数据块）").into(),
        ),
        row("qpn", device("qpn"), driver("qpn")),
        row("state", device("state"), driver("state")),
        row(
            lang.pick("created", "创建"),
            device("created_ns"),
            both!(lang, "{} by thread {}", "{}，线程 {}", driver("created_ns"), driver("created_by")),
        ),
        row(
            lang.pick("send queue", "发送队列"),
            both!(lang, "{} of {}", "{} / {}", device("sq_used"), device("sq_depth")),
            posted_less_released("sq_posted", "sq_released"),
        ),
        row(
            lang.pick("receive queue", "接收队列"),
            both!(lang, "{} of {}", "{} / {}", device("rq_used"), device("rq_depth")),
            posted_less_released("rq_posted", "rq_released"),
        ),
        row(
            lang.pick("first error / refusals", "首个错误 / 被拒绝"),
            device("first_check"),
            match value(of_driver, "refused") {
                0 => "0".to_owned(),
                n => both!(
                    lang,
                    "{n}, the last {} of {}",
                    "{n}，最近一次在 {}，{}",
                    driver("refused_ns"),
                    driver("refused_call")
                ),
            },
        ),
        row(
            lang.pick("modified", "修改"),
            "-".into(),
            both!(
                lang,
                "{} times, last {} by thread {}",
                "{} 次，最近一次在 {}，线程 {}",
                driver("modifies"),
                driver("modified_ns"),
                driver("modified_by")
            ),
        ),
        row(lang.pick("queried", "查询"), "-".into(), driver("queried_ns")),
    ]
}

fn find<'a>(fields: &'a [FieldModel], name: &str) -> Option<&'a FieldModel> {
    fields.iter().find(|field| field.name == name)
}

fn decoded(fields: &[FieldModel], name: &str) -> String {
    find(fields, name).map_or_else(|| "?".to_owned(), |field| field.decoded.clone())
}

fn value(fields: &[FieldModel], name: &str) -> u64 {
    find(fields, name).and_then(|field| field.value).unwrap_or(0)
}

fn fields(out: &mut String, fields: &[FieldModel]) {
    let row =
        |field: &FieldModel| vec![format!("  {}", field.name), field.decoded.clone(), field.doc.to_owned()];
    out.push_str(&table(&fields.iter().map(row).collect::<Vec<_>>(), ""));
}

/// The 256 bytes, as hexdump(1) shows them, and below it each field by its offset.
#[must_use]
pub fn hex(lang: Lang, qp: &QpModel) -> String {
    let mut out = String::new();
    for (line, bytes) in qp.context.bytes().chunks(16).enumerate() {
        let text: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let (left, right) = text.split_at(text.len().min(8));
        let _ = writeln!(out, "{:#04x}  {}  {}", line * 16, left.join(" "), right.join(" "));
    }
    out.push('\n');
    let head = match lang {
        Lang::Zh => ["偏移", "字段", "字节", "值", "含义"],
        _ => ["OFFSET", "FIELD", "BYTES", "VALUE", "WHAT"],
    };
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(qp.device(lang).iter().map(|field| {
        vec![
            format!("{:#04x}", field.offset),
            field.name.to_owned(),
            field.bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            field.decoded.clone(),
            field.doc.to_owned(),
        ]
    }));
    out.push_str(&table(&rows, ""));
    out
}

/// What happened, a line each; times count from the first.
#[must_use]
pub fn log(lang: Lang, entries: &[Entry]) -> String {
    let began = entries.first().map_or(0, |entry| entry.at_ns);
    let with_peer = entries.iter().any(|entry| entry.at_peer);
    let head = match lang {
        Lang::Zh => ["时间", "QP", "PID", "线程", "用时", "事件", "经过"],
        _ => ["TIME", "QP", "PID", "THREAD", "TOOK", "WHAT", "HOW"],
    };
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(entries.iter().map(|entry| {
        let mark = match (with_peer, entry.at_peer) {
            (true, true) => lang.pick(" (peer)", "（对端）"),
            _ => "",
        };
        vec![
            format!("{:.3} ms", entry.at_ns.saturating_sub(began) as f64 / 1e6),
            format!("{:#x}{mark}", entry.qpn),
            entry.pid.to_string(),
            entry.thread.map_or("-".into(), |thread| thread.to_string()),
            entry.took_ns.map_or("-".into(), |ns| span(ns.into())),
            entry.what.clone(),
            entry.how.clone(),
        ]
    }));
    let none = lang.pick("the flight recorder has nothing of it any more", "飞行记录器中已没有它的记录");
    table(&rows, none)
}

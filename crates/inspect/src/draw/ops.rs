//! The four operations as operations on a linked list, beside what driver and device did.

use glassnic_events::QpState;
use glassnic_explain::Lang;

use super::lanes::Group;
use super::scene::{Anchor, Area, Scene, Text, colour, cut, width, wrap};
use super::story::{Op, OpKind, Story};
use super::{MARGIN, WIDTH, fill, heading, outline};
use crate::decode::span;
use crate::words::both;

/// Rows that are drawn.
const ROWS: usize = 16;
/// Left edges of the columns.
const LIST: f64 = 202.0;
const RECORD: f64 = 568.0;
const DEVICE: f64 = 796.0;
const QPC: f64 = 1006.0;
const RIGHT: f64 = WIDTH - MARGIN;
const ROW: f64 = 78.0;
/// A node of the list.
const NODE: Area = Area::new(0.0, 0.0, 66.0, 24.0);
const GAP: f64 = 16.0;
/// Nodes of a list that are drawn; the others are an ellipsis.
const NODES: usize = 3;

/// A row: an operation, and how many more of its kind on how many other QPs it stands for.
struct Row<'a> {
    at: usize,
    op: &'a Op,
    /// Times in a row on the same QP.
    times: usize,
}

/// Draws them from `y` on. Gives where it ends.
pub(super) fn draw(lang: Lang, scene: &mut Scene, story: &Story, groups: &[Group], y: f64) -> f64 {
    let remark = lang.pick(
        "the NIC's list of QPs after each, and how driver and device did it",
        "每次操作之后 NIC 的 QP 链表，以及驱动和设备如何完成它",
    );
    heading(scene, y + 24.0, lang.pick("The four operations", "四种操作"), remark);
    let columns = [
        (MARGIN, lang.pick("Operation", "操作")),
        (LIST, lang.pick("List of living QPs", "现存 QP 的链表")),
        (RECORD, lang.pick("Driver: record, doorbell", "驱动：记录与门铃")),
        (DEVICE, lang.pick("Device", "设备")),
        (QPC, lang.pick("QP context, old → new", "QP 上下文，旧 → 新")),
    ];
    for (x, words) in columns {
        scene.text(Text::new(x, y + 52.0, 11.5, words).bold().fill(colour::SOFT));
    }
    let mut y = y + 62.0;
    let (rows, more) = rows(story, groups);
    for row in &rows {
        let group = groups.iter().find(|group| group.lives.contains(&row.op.life));
        let others = group.map_or(0, |group| group.lives.len().saturating_sub(1));
        draw_row(lang, scene, story, row, others, y);
        y += ROW;
    }
    if more > 0 {
        let words = both!(lang, "… and {more} more operations", "……另有 {more} 次操作");
        scene.text(Text::new(MARGIN, y + 16.0, 12.0, words).fill(colour::SOFT));
        y += 26.0;
    }
    y + 6.0
}

/// All operations, where they are few; else those of the first QP, which stand for others, and what was refused. Equal
/// look-ups in a row are one. With it how many are left out.
fn rows<'a>(story: &'a Story, groups: &[Group]) -> (Vec<Row<'a>>, usize) {
    let all = merged(story, |_| true);
    if all.len() <= ROWS {
        return (all, 0);
    }
    let leaders: Vec<usize> = groups.iter().filter_map(|group| group.lives.first().copied()).collect();
    let mut refused = 0;
    let mut rows = merged(story, |op| {
        let other = op.verb.status.errno != 0 && leaders.contains(&op.life) && refused < ROWS / 2;
        refused += usize::from(other);
        leaders.first() == Some(&op.life) || other
    });
    rows.truncate(ROWS);
    let drawn: usize = rows.iter().map(|row| row.times).sum();
    (rows, story.ops.len() - drawn)
}

/// Those that are chosen.
fn merged<'a>(story: &'a Story, mut chosen: impl FnMut(&Op) -> bool) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    for (at, op) in story.ops.iter().enumerate() {
        if !chosen(op) {
            continue;
        }
        let same = |row: &Row<'_>| {
            let (one, two) = (&row.op.verb, &op.verb);
            let alike = op.kind == OpKind::LookUp && one.call == two.call && one.status == two.status;
            row.op.life == op.life && alike && row.op.state == op.state
        };
        match rows.last_mut().filter(|row| same(row)) {
            Some(row) => row.times += 1,
            None => rows.push(Row { at, op, times: 1 }),
        }
    }
    rows
}

fn draw_row(lang: Lang, scene: &mut Scene, story: &Story, row: &Row<'_>, others: usize, y: f64) {
    let Row { at, op, times } = *row;
    let refused = op.verb.status.errno != 0;
    let ground = if refused { colour::PALE_RED } else { colour::PANEL };
    scene.rect(Area::new(MARGIN - 8.0, y, RIGHT - MARGIN + 16.0, ROW - 8.0), 6.0, ground, "");
    let words = match op.kind {
        OpKind::Insert => lang.pick("insert", "插入"),
        OpKind::Change => lang.pick("change", "修改"),
        OpKind::LookUp => lang.pick("look up", "查找"),
        OpKind::Remove => lang.pick("remove", "删除"),
    };
    let ink = if refused { colour::RED } else { colour::INK };
    scene.text(Text::new(MARGIN, y + 20.0, 14.0, words).bold().fill(ink));
    scene.text(Text::new(MARGIN, y + 36.0, 11.5, op.verb.call.clone()).mono());
    let when = span(op.verb.at_ns.saturating_sub(story.began_ns));
    let when = match times {
        1 => both!(lang, "at {when}", "{when} 时"),
        _ => both!(lang, "at {when}, {times} times", "{when} 时，共 {times} 次"),
    };
    let room = LIST - MARGIN - 12.0;
    scene.text(Text::new(MARGIN, y + 50.0, 10.5, cut(&when, room, 10.5, false, false)).fill(colour::SOFT));
    if others > 0 {
        let words = both!(lang, "and on {others} more QPs", "另有 {others} 个 QP 也是");
        scene.text(
            Text::new(MARGIN, y + 63.0, 10.5, cut(&words, room, 10.5, false, false)).fill(colour::BLUE),
        );
    }
    list(lang, scene, story, at, y);
    driver(lang, scene, op, y);
    device(lang, scene, op, y);
    context(lang, scene, op, y);
}

/// A QP in the list.
#[derive(Clone, Copy)]
struct Node {
    life: usize,
    state: QpState,
}

/// The list after the operation `at`; one that is removed is still in it, to be shown as it goes.
fn living(story: &Story, at: usize) -> Vec<Node> {
    let Some(op) = story.ops.get(at) else { return Vec::new() };
    let now = op.verb.at_ns;
    let pid = op.verb.pid;
    let alive = story.lives.iter().enumerate().filter(|(index, life)| {
        life.pid == pid
            && (*index == op.life || life.began_ns() <= now && life.destroyed_ns.is_none_or(|end| end > now))
    });
    let node = |(index, life): (usize, &super::story::Life)| {
        let state =
            life.states.iter().rev().find(|(at, _)| *at <= now).map_or(QpState::Reset, |(_, state)| *state);
        Node { life: index, state: if index == op.life { op.state } else { state } }
    };
    alive.map(node).collect()
}

/// The head of the list, its first nodes, and the one that the operation is about.
fn list(lang: Lang, scene: &mut Scene, story: &Story, at: usize, y: f64) {
    let Some(op) = story.ops.get(at) else { return };
    let nodes = living(story, at);
    let place = nodes.iter().position(|node| node.life == op.life).unwrap_or(0);
    let (x, middle) = (LIST, y + 27.0);
    scene.text(Text::new(x, middle + 4.0, 10.5, lang.pick("head", "表头")).fill(colour::SOFT));
    let mut x = x + 34.0;
    let mut next = x + GAP;
    for part in parts(nodes.len(), place) {
        scene.arrow(x, middle, next, colour::SOFT);
        match part {
            Part::Node(index) => {
                let Some(node) = nodes.get(index) else { continue };
                draw_node(lang, scene, story, op, *node, next, middle);
                x = next + NODE.width;
            }
            Part::Hidden(count) => {
                let text =
                    Text::new(next + 4.0, middle + 4.0, 10.5, format!("… {count} …")).fill(colour::SOFT);
                x = next + 8.0 + text.width();
                scene.text(text);
            }
        }
        next = x + GAP;
    }
    // The end of the list, as circuits have ground.
    scene.line(format!("M{x:.1} {middle:.1}h8m0 -6v12m3 -9v6m3 -4v2"), colour::SOFT, 1.2);
}

/// What is drawn of a list.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Node(usize),
    /// So many that are left out.
    Hidden(usize),
}

/// A list of `len` nodes, of which the one at `place` must be seen.
fn parts(len: usize, place: usize) -> Vec<Part> {
    if len <= NODES {
        return (0..len).map(Part::Node).collect();
    }
    // Its neighbour before it stays, for it is that one's link that an operation changes; but the first stays too.
    let from = match place {
        0 | 1 => return [Part::Node(0), Part::Node(1), Part::Hidden(len - 2)].into(),
        place => place,
    };
    let mut parts = vec![Part::Node(0), Part::Hidden(from - 1), Part::Node(from)];
    if parts[1] == Part::Hidden(0) {
        parts.remove(1);
    }
    if from + 1 < len {
        parts.push(Part::Hidden(len - from - 1));
    }
    parts
}

fn draw_node(lang: Lang, scene: &mut Scene, story: &Story, op: &Op, node: Node, x: f64, middle: f64) {
    let area = Area { x, y: middle - NODE.height / 2.0, ..NODE };
    let qpn = story.lives.get(node.life).map_or(0, |life| life.qpn);
    let words = format!("{qpn:#x}");
    let size = if width(&words, 11.0, true, false) > NODE.width - 6.0 { 10.0 } else { 11.0 };
    let text = Text::new(x + NODE.width / 2.0, middle + 4.0, size, words).mono().anchor(Anchor::Middle);
    if node.life != op.life {
        scene.rect(area, 5.0, fill(node.state), outline(node.state));
        scene.text(text);
        return;
    }
    let refused = op.verb.status.errno != 0;
    let under = match (op.kind, refused) {
        (_, true) => lang.pick("refused", "被拒绝").to_owned(),
        (OpKind::Insert, _) => lang.pick("new node", "新节点").to_owned(),
        (OpKind::Change, _) => op.verb.what.clone(),
        (OpKind::LookUp, _) => both!(lang, "found: {}", "找到：{}", node.state),
        (OpKind::Remove, _) => lang.pick("unlinked", "已摘除").to_owned(),
    };
    let ink = if refused { colour::RED } else { colour::INK };
    match op.kind {
        OpKind::Remove if !refused => {
            scene.dashed(area, 5.0, colour::WHITE, colour::INK);
            let (right, low) = (x + NODE.width, area.y + NODE.height);
            scene.line(format!("M{x:.1} {low:.1}L{right:.1} {:.1}", area.y), colour::INK, 1.2);
        }
        _ => {
            let ring = Area::new(area.x - 3.0, area.y - 3.0, area.width + 6.0, area.height + 6.0);
            match op.kind {
                OpKind::LookUp => scene.dashed(ring, 8.0, "", colour::BLUE),
                _ => scene.rect(ring, 8.0, "", ink),
            }
            scene.rect(area, 5.0, fill(node.state), outline(node.state));
        }
    }
    scene.text(text);
    let under =
        Text::new(x + NODE.width / 2.0, middle + 30.0, 10.5, under).bold().anchor(Anchor::Middle).fill(ink);
    // Within its column, although the node stands at its edge.
    let half = under.width() / 2.0;
    let x = under.x.max(LIST + half).min(RECORD - 14.0 - half);
    scene.text(Text { x, ..under });
}

fn driver(lang: Lang, scene: &mut Scene, op: &Op, y: f64) {
    let room = DEVICE - RECORD - 30.0;
    let verb = &op.verb;
    let Some(record) = &verb.record else {
        let words = lang.pick("refuses the call: no record, no doorbell", "拒绝调用：不填记录，不敲门铃");
        for (line, words) in wrap(words, room, 11.5, false, 3).into_iter().enumerate() {
            scene.text(Text::new(RECORD, y + 20.0 + 15.0 * line as f64, 11.5, words).fill(colour::RED));
        }
        return;
    };
    let head = format!("{} {:#06x}", record.opcode, record.opcode_number);
    scene.text(Text::new(RECORD, y + 20.0, 11.0, cut(&head, room, 11.0, true, false)).mono().bold());
    let fields =
        record.fields.iter().filter(|field| field.meant && !matches!(field.name, "from_state" | "to_state"));
    let told: Vec<String> = fields
        .filter(|field| field.value != Some(0))
        .map(|field| format!("{}={}", field.name, short(&field.decoded)))
        .collect();
    for (line, words) in wrap(&told.join(" "), room, 9.5, true, 2).into_iter().enumerate() {
        scene.text(Text::new(RECORD, y + 34.0 + 12.0 * line as f64, 9.5, words).mono().fill(colour::SOFT));
    }
    bell(scene, RECORD + 5.0, y + 57.0);
    let rung = both!(lang, "rung for record {}", "为记录 {} 敲响", verb.seq);
    scene.text(Text::new(RECORD + 15.0, y + 61.0, 10.5, cut(&rung, room - 15.0, 10.5, false, false)));
    scene.arrow(DEVICE - 26.0, y + 57.0, DEVICE - 8.0, colour::SOFT);
}

/// Names without the prefix that all of them have.
fn short(decoded: &str) -> String {
    decoded.replace("IBV_QP_", "")
}

/// A number without its meaning in brackets.
fn bare(decoded: &str) -> &str {
    decoded.split([' ', '（']).next().filter(|word| word.parse::<u64>().is_ok()).unwrap_or(decoded)
}

/// A doorbell.
fn bell(scene: &mut Scene, x: f64, y: f64) {
    scene
        .filled(format!("M{:.1} {:.1}h10l-1.5 -2.5v-3a3.5 3.5 0 0 0 -7 0v3z", x - 5.0, y + 3.0), colour::INK);
    scene.filled(format!("M{:.1} {:.1}h3.4a1.7 1.7 0 0 1 -3.4 0z", x - 1.7, y + 3.8), colour::INK);
}

fn device(lang: Lang, scene: &mut Scene, op: &Op, y: f64) {
    let verb = &op.verb;
    let (said, ink) = match &verb.status.name {
        Some(name) => (both!(lang, "{name}: nothing has changed", "{name}：什么都没有改变"), colour::RED),
        None => (verb.device.first().cloned().unwrap_or_default(), colour::INK),
    };
    let room = QPC - DEVICE - 14.0;
    for (line, words) in wrap(&said, room, 10.5, false, 3).into_iter().enumerate() {
        scene.text(Text::new(DEVICE, y + 19.0 + 13.0 * line as f64, 10.5, words).fill(ink));
    }
    if let Some(ns) = verb.took_ns {
        let took = both!(lang, "status 0 after {}", "状态 0，用时 {}", span(ns.into()));
        scene
            .text(Text::new(DEVICE, y + 61.0, 10.5, cut(&took, room, 10.5, false, false)).fill(colour::SOFT));
    }
}

fn context(lang: Lang, scene: &mut Scene, op: &Op, y: f64) {
    const LINES: usize = 3;
    let room = RIGHT - QPC;
    let changes = &op.verb.changes;
    // The state first: it is what the others are for.
    let (state, others): (Vec<_>, Vec<_>) = changes
        .iter()
        .filter(|change| change.field != "created_ns")
        .partition(|change| change.field == "state");
    let all: Vec<_> = state.into_iter().chain(others).collect();
    let shown = if all.len() > LINES + 1 { LINES } else { all.len() };
    for (line, change) in all.iter().take(shown).enumerate() {
        let (old, new) = (bare(&change.old), bare(&change.new));
        let words = format!("{:02x} {} {old} → {new}", change.offset, change.field);
        let words = cut(&words, room, 9.5, true, false);
        scene.text(Text::new(QPC, y + 18.0 + 14.0 * line as f64, 9.5, words).mono());
    }
    let rest = all.len() - shown;
    if rest > 0 {
        let words = both!(lang, "and {rest} more fields", "另有 {rest} 个字段");
        scene.text(Text::new(QPC, y + 61.0, 10.5, words).fill(colour::SOFT));
    } else if all.is_empty() {
        let words = lang.pick("no byte changed", "没有字节改变");
        scene.text(Text::new(QPC, y + 19.0, 10.5, words).fill(colour::SOFT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_shows_its_head_and_the_node_that_is_meant() {
        use Part::{Hidden, Node};
        assert_eq!(parts(0, 0), []);
        assert_eq!(parts(3, 2), [Node(0), Node(1), Node(2)]);
        assert_eq!(parts(200, 0), [Node(0), Node(1), Hidden(198)]);
        assert_eq!(parts(200, 199), [Node(0), Hidden(198), Node(199)]);
        assert_eq!(parts(200, 77), [Node(0), Hidden(76), Node(77), Hidden(122)]);
        // All are counted, whichever is meant.
        for place in 0..9 {
            let count = |part: &Part| if let Hidden(n) = part { *n } else { 1 };
            assert_eq!(parts(9, place).iter().map(count).sum::<usize>(), 9, "{place}");
            assert!(parts(9, place).contains(&Node(place)));
        }
    }
}

//! Lives over time: a lane for each QP, or for each group of QPs that did the same.

use glassnic_events::QpState;
use glassnic_explain::Lang;

use super::axis::Axis;
use super::notes::Notes;
use super::scene::{Anchor, Area, Scene, Text, colour, cut, width};
use super::story::{Life, Mark, MarkKind, Story};
use super::{MARGIN, WIDTH, fill, heading, outline};
use crate::decode::span;
use crate::words::both;

/// Lanes up to which each QP has its own.
const OWN_LANES: usize = 8;
/// Groups that are drawn.
const GROUPS: usize = 10;
/// Lives of a group that are drawn as strips.
const STRIPS: usize = 48;
const STRIP: f64 = 3.0;
/// Left edge of time.
const LEFT: f64 = 250.0;
const RIGHT: f64 = WIDTH - MARGIN - 8.0;
/// Height of a life's bar.
const BAR: f64 = 18.0;
/// Room above it for words: two rows.
const ABOVE: f64 = 34.0;
const BELOW: f64 = 18.0;
/// Room below it for words of what went wrong: two rows.
const BELOW_WRONG: f64 = 42.0;

/// Lives with the same path; the first stands for them.
#[derive(Debug)]
pub(super) struct Group {
    /// Indices of the lives.
    pub(super) lives: Vec<usize>,
}

/// Groups of lives, the largest last among those that begin together. With few QPs each is a group.
pub(super) fn groups(story: &Story) -> Vec<Group> {
    let mut groups: Vec<(String, Group)> = Vec::new();
    let alone = story.lives.len() <= OWN_LANES;
    for (index, life) in story.lives.iter().enumerate() {
        let wrongs: Vec<&str> = life.wrongs().map(|mark| mark.word.as_str()).collect();
        let key = match alone {
            true => index.to_string(),
            false => format!("{} {:?} {} {wrongs:?}", life.qp_type, life.path(), life.destroyed_ns.is_some()),
        };
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.lives.push(index),
            None => groups.push((key, Group { lives: vec![index] })),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Draws them from `y` on. Gives where it ends.
pub(super) fn draw(
    lang: Lang,
    scene: &mut Scene,
    story: &Story,
    groups: &[Group],
    notes: &Notes,
    y: f64,
) -> f64 {
    let remark = lang.pick(
        "left to right; long silences are shortened, the times are true",
        "从左到右；较长的空闲时间已缩短，所标时间为真实时间",
    );
    heading(scene, y + 24.0, lang.pick("Over time", "时间线"), remark);
    let shown = &groups[..groups.len().min(GROUPS)];
    let axis = axis(story, shown);
    let mut y = y + 62.0;
    let top = y - 8.0;
    let ticks_at = scene.shapes.len();
    for group in shown {
        y = lane(lang, scene, story, group, notes, &axis, y);
    }
    if groups.len() > shown.len() {
        let rest = &groups[shown.len()..];
        let (paths, qps) = (rest.len(), rest.iter().map(|group| group.lives.len()).sum::<usize>());
        let words = both!(
            lang,
            "… and {qps} more QPs on {paths} other paths",
            "……另有 {qps} 个 QP，走了其他 {paths} 种路径"
        );
        scene.text(Text::new(MARGIN, y + 14.0, 12.0, words).fill(colour::SOFT));
        y += 26.0;
    }
    // Behind the lanes.
    let lanes = scene.shapes.split_off(ticks_at);
    ticks(scene, story, &axis, top, y);
    scene.shapes.extend(lanes);
    y + 8.0
}

/// The axis knows the times of those that are drawn in full.
fn axis(story: &Story, groups: &[Group]) -> Axis {
    let mut times = vec![story.began_ns, story.ended_ns];
    for life in groups.iter().filter_map(|group| story.lives.get(*group.lives.first()?)) {
        times.extend(life.states.iter().map(|(at, _)| *at));
        times.extend(life.marks.iter().take(40).map(|mark| mark.at_ns));
        times.extend(life.destroyed_ns);
    }
    Axis::new(times, LEFT, RIGHT)
}

fn ticks(scene: &mut Scene, story: &Story, axis: &Axis, top: f64, bottom: f64) {
    for (at_ns, x) in axis.ticks(84.0) {
        scene.line(format!("M{x:.1} {:.1}V{:.1}", top, bottom - 6.0), "#e6eaef", 1.0);
        let words = time(at_ns.saturating_sub(story.began_ns));
        let anchor = if x > RIGHT - 40.0 { Anchor::End } else { Anchor::Middle };
        scene.text(Text::new(x, top - 4.0, 11.0, words).anchor(anchor).fill(colour::SOFT));
    }
}

/// A time, precise enough that neighbours differ.
fn time(ns: u64) -> String {
    match ns {
        0 => "0".to_owned(),
        1..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        1_000_000_000..100_000_000_000 => format!("{:.3} s", ns as f64 / 1e9),
        _ => span(ns),
    }
}

fn lane(
    lang: Lang,
    scene: &mut Scene,
    story: &Story,
    group: &Group,
    notes: &Notes,
    axis: &Axis,
    y: f64,
) -> f64 {
    let Some(life) = group.lives.first().and_then(|index| story.lives.get(*index)) else { return y };
    let bar = y + ABOVE;
    label(lang, scene, life, group, bar);
    states(scene, story, life, axis, bar, BAR);
    marks(scene, life, notes, axis, bar);
    let wrong = life.wrongs().next().is_some();
    let mut end = bar + BAR + if wrong { BELOW_WRONG } else { BELOW };
    if group.lives.len() > 1 {
        // Evenly among all of them, where there are more.
        let step = group.lives.len().div_ceil(STRIPS).max(1);
        let mut strip = end - 4.0;
        for index in group.lives.iter().step_by(step) {
            if let Some(life) = story.lives.get(*index) {
                strips(scene, story, life, axis, strip);
                strip += STRIP + 1.0;
            }
        }
        let all = group.lives.len();
        let words = match step {
            1 => both!(lang, "all {all}", "全部 {all} 个"),
            _ => both!(lang, "one in {step} of {all}", "共 {all} 个，每 {step} 个画一个"),
        };
        scene.text(Text::new(LEFT - 14.0, end + 6.0, 11.0, words).anchor(Anchor::End).fill(colour::SOFT));
        end = strip.max(end + 8.0) + 10.0;
    }
    end
}

fn label(lang: Lang, scene: &mut Scene, life: &Life, group: &Group, bar: f64) {
    let Life { qpn, qp_type, pid, .. } = life;
    let text = Text::new(MARGIN, bar + 8.0, 14.0, format!("QP {qpn:#x}")).bold();
    let after = MARGIN + text.width() + 8.0;
    scene.text(text);
    if group.lives.len() > 1 {
        let words = format!("× {}", group.lives.len());
        scene.text(Text::new(after, bar + 8.0, 14.0, words).bold().fill(colour::BLUE));
    }
    let words = match group.lives.len() {
        1 => both!(lang, "{qp_type}, process {pid}", "{qp_type}，进程 {pid}"),
        _ => both!(lang, "{qp_type}, the first of those on this path", "{qp_type}，走这条路径的第一个"),
    };
    let words = cut(&words, LEFT - 14.0 - MARGIN, 11.0, false, false);
    scene.text(Text::new(MARGIN, bar + 24.0, 11.0, words).fill(colour::SOFT));
}

/// The states of a life, with their names where there is room.
fn states(scene: &mut Scene, story: &Story, life: &Life, axis: &Axis, y: f64, height: f64) {
    for (from, to, state) in spans(story, life, axis) {
        let area = Area::new(from, y, (to - from).max(1.5), height);
        scene.rect(area, 2.0, fill(state), outline(state));
        if width(state.name(), 11.0, false, true) + 8.0 <= area.width {
            let ink = if state == QpState::Err { colour::WHITE } else { colour::INK };
            let text = Text::new(from + area.width / 2.0, y + height / 2.0 + 4.0, 11.0, state.name());
            scene.text(text.bold().anchor(Anchor::Middle).fill(ink));
        }
    }
    if let Some(at) = life.destroyed_ns {
        let x = axis.x(at);
        scene.line(format!("M{x:.1} {:.1}V{:.1}", y - 4.0, y + height + 4.0), colour::INK, 2.0);
    }
}

fn strips(scene: &mut Scene, story: &Story, life: &Life, axis: &Axis, y: f64) {
    for (from, to, state) in spans(story, life, axis) {
        scene.rect(Area::new(from, y, (to - from).max(0.8), STRIP), 0.0, fill(state), "");
    }
    for mark in life.wrongs() {
        scene.rect(Area::new(axis.x(mark.at_ns) - 1.5, y, 3.0, STRIP), 0.0, colour::RED, "");
    }
}

/// Where each state begins and ends.
fn spans(story: &Story, life: &Life, axis: &Axis) -> Vec<(f64, f64, QpState)> {
    let end = life.destroyed_ns.unwrap_or(story.ended_ns);
    let ends = life.states.iter().skip(1).map(|(at, _)| *at).chain([end]);
    life.states.iter().zip(ends).map(|((from, state), to)| (axis.x(*from), axis.x(to), *state)).collect()
}

/// What happened, above the bar; what went wrong below it, by the number of its note. What has no room is left out.
fn marks(scene: &mut Scene, life: &Life, notes: &Notes, axis: &Axis, bar: f64) {
    let (mut above, mut below) = (Rows::default(), Rows::default());
    let mut last: Option<(MarkKind, f64)> = None;
    for mark in &life.marks {
        let x = axis.x(mark.at_ns);
        // The same once more at the same place says nothing.
        if last.is_some_and(|(kind, at)| kind == mark.kind && (x - at).abs() < 3.0) {
            continue;
        }
        last = Some((mark.kind, x));
        if mark.kind == MarkKind::Wrong {
            wrong(scene, mark, notes, x, bar, &mut below);
        } else {
            good(scene, mark, x, bar, &mut above);
        }
    }
}

/// The right ends of what stands in each row.
struct Rows([f64; 2]);

impl Default for Rows {
    fn default() -> Self {
        Self([f64::MIN; 2])
    }
}

impl Rows {
    /// The first row with room from `left` to `right`, which it then takes.
    fn take(&mut self, left: f64, right: f64) -> Option<usize> {
        let row = self.0.iter().position(|end| left > *end)?;
        self.0[row] = right + 4.0;
        Some(row)
    }
}

fn good(scene: &mut Scene, mark: &Mark, x: f64, bar: f64, above: &mut Rows) {
    let text = Text::new(x + 8.0, 0.0, 10.5, mark.word.clone()).fill(colour::SOFT);
    let text = match text.x + text.width() > RIGHT {
        true => Text { x: x - 8.0, ..text }.anchor(Anchor::End),
        false => text,
    };
    let area = text.area();
    let (left, right) = (area.x.min(x - 6.0), (area.x + area.width).max(x + 6.0));
    if let Some(row) = above.take(left, right) {
        let y = bar - 6.0 - 14.0 * row as f64;
        glyph(scene, mark.kind, x, y);
        scene.text(Text { y: y + 3.5, ..text });
    }
}

/// A cross on the bar, and below it the number of its note with a word.
fn wrong(scene: &mut Scene, mark: &Mark, notes: &Notes, x: f64, bar: f64, below: &mut Rows) {
    glyph(scene, MarkKind::Wrong, x, bar + BAR / 2.0);
    let words = match notes.number(&mark.why) {
        Some(number) => format!("{number} {}", mark.word),
        None => mark.word.clone(),
    };
    let text = Text::new(x - 3.0, 0.0, 10.5, words).bold().fill(colour::RED);
    let text = if text.x + text.width() > RIGHT { text.anchor(Anchor::End) } else { text };
    let area = text.area();
    if let Some(row) = below.take(area.x, area.x + area.width) {
        let y = bar + BAR + 14.0 + 13.0 * row as f64;
        // From the second row it would cross the words of the first.
        if row == 0 {
            scene.line(format!("M{x:.1} {:.1}V{:.1}", bar + BAR, y - 9.0), colour::RED, 1.0);
        }
        scene.text(Text { y, ..text });
    }
}

/// The sign of a mark.
pub(super) fn glyph(scene: &mut Scene, kind: MarkKind, x: f64, y: f64) {
    let path = |points: [(f64, f64); 3]| {
        let [a, b, c] = points.map(|(dx, dy)| format!("{:.1} {:.1}", x + dx, y + dy));
        format!("M{a}L{b}L{c}Z")
    };
    match kind {
        MarkKind::Post => scene.filled(path([(-4.0, -4.0), (4.0, -4.0), (0.0, 4.0)]), colour::INK),
        MarkKind::PacketOut => scene.filled(path([(-4.0, -4.0), (-4.0, 4.0), (5.0, 0.0)]), colour::BLUE),
        MarkKind::PacketIn => scene.filled(path([(4.0, -4.0), (4.0, 4.0), (-5.0, 0.0)]), colour::BLUE),
        MarkKind::Wrong => {
            let (a, b, c, d) = (x - 4.5, y - 4.5, x + 4.5, y + 4.5);
            let cross = format!("M{a:.1} {b:.1}L{c:.1} {d:.1}M{a:.1} {d:.1}L{c:.1} {b:.1}");
            // White around it, so that it is seen on every colour.
            scene.line(cross.clone(), colour::WHITE, 5.0);
            scene.line(cross, colour::RED, 2.6);
        }
    }
}

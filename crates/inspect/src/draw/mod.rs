//! The picture of the life of QPs: a lane each over time, and the four operations on their list, beside what driver and
//! device did.
//!
//! [`story`] makes lives of flight records, the layouts ([`lanes`], [`ops`], [`notes`]) make a [`Scene`] of them, and
//! [`svg`] writes it down. Many QPs that did the same are one lane with a strip for each of them.

mod axis;
mod lanes;
mod notes;
mod ops;
mod scene;
mod story;
mod svg;

use std::collections::BTreeSet;

use glassnic_events::QpState;
use glassnic_explain::Lang;

pub use scene::{Anchor, Area, Scene, Shape, Text};
pub use story::Source;
pub use svg::write;

use crate::decode::span;
use crate::words::both;
use scene::colour;
use story::Story;

/// Width of a picture.
const WIDTH: f64 = 1240.0;
/// Free room at its edges.
const MARGIN: f64 = 32.0;

/// The picture of the lives of QPs.
#[must_use]
pub fn picture(lang: Lang, sources: &[Source]) -> Scene {
    let story = Story::of(lang, sources);
    let mut scene = Scene { width: WIDTH, lang: lang.code(), ..Scene::default() };
    let mut y = head(lang, &mut scene, sources, &story);
    if story.lives.is_empty() {
        let words = lang.pick("No queue pair was created.", "没有创建过 QP。");
        scene.text(Text::new(MARGIN, y + 24.0, 14.0, words).fill(colour::SOFT));
        scene.height = y + 56.0;
        return scene;
    }
    let groups = lanes::groups(&story);
    let numbers = notes::collect(&story);
    y = lanes::draw(lang, &mut scene, &story, &groups, &numbers, y);
    y = ops::draw(lang, &mut scene, &story, &groups, y);
    y = notes::draw(lang, &mut scene, &story, &numbers, y);
    scene.height = (y + MARGIN / 2.0).ceil();
    scene
}

/// Title, what there is in numbers, and the legend. Gives where it ends.
fn head(lang: Lang, scene: &mut Scene, sources: &[Source], story: &Story) -> f64 {
    let distinct = |value: fn(&Source) -> &str| {
        let all: BTreeSet<&str> = sources.iter().map(value).collect();
        all.into_iter().collect::<Vec<_>>().join(", ")
    };
    let (program, device) = (distinct(|s| program(&s.command)), distinct(|s| &s.device));
    let title = both!(
        lang,
        "Life of the queue pairs of {program} on {device}",
        "{program} 在 {device} 上的 QP 的一生"
    );
    let pids: Vec<String> = sources.iter().map(|source| source.pid.to_string()).collect();
    let (qps, verbs) = (story.lives.len(), story.ops.len());
    let refused = story.ops.iter().filter(|op| op.verb.status.errno != 0).count();
    let took = span(story.ended_ns.saturating_sub(story.began_ns));
    let pids = pids.join(", ");
    let sub = both!(
        lang,
        "process {pids}  ·  {qps} QP{}  ·  {verbs} operations, {refused} refused  ·  {took}",
        "进程 {pids}  ·  {qps} 个 QP{}  ·  {verbs} 次操作，{refused} 次被拒绝  ·  {took}",
        if qps == 1 || lang == Lang::Zh { "" } else { "s" }
    );
    let room = WIDTH - 2.0 * MARGIN;
    let title = scene::cut(&title, room, 22.0, false, true);
    scene.title.clone_from(&title);
    scene.text(Text::new(MARGIN, 46.0, 22.0, title).bold());
    let sub = scene::cut(&sub, room, 13.0, false, false);
    scene.text(Text::new(MARGIN, 70.0, 13.0, sub).fill(colour::SOFT));
    legend(lang, scene, 98.0);
    122.0
}

/// The program's name, of a line with its arguments.
fn program(command: &str) -> &str {
    let word = command.split(' ').next().unwrap_or_default();
    word.rsplit('/').next().unwrap_or_default()
}

fn legend(lang: Lang, scene: &mut Scene, y: f64) {
    let mut x = MARGIN;
    for &state in QpState::ALL {
        scene.rect(Area::new(x, y - 11.0, 22.0, 13.0), 3.0, fill(state), outline(state));
        let text = Text::new(x + 28.0, y, 12.0, state.name());
        x += 28.0 + text.width() + 16.0;
        scene.text(text);
    }
    let marks = [
        (story::MarkKind::Post, lang.pick("first post", "首次提交")),
        (story::MarkKind::PacketOut, lang.pick("first packet out", "首个报文发出")),
        (story::MarkKind::PacketIn, lang.pick("first packet in", "首个报文收到")),
        (story::MarkKind::Wrong, lang.pick("error or refusal", "错误或拒绝")),
    ];
    x += 8.0;
    for (kind, words) in marks {
        lanes::glyph(scene, kind, x + 6.0, y - 4.5);
        let text = Text::new(x + 17.0, y, 12.0, words);
        x += 17.0 + text.width() + 16.0;
        scene.text(text);
    }
}

/// A heading of a part of the picture, and what to know of it.
fn heading(scene: &mut Scene, y: f64, words: &str, remark: &str) {
    let text = Text::new(MARGIN, y, 16.0, words).bold();
    let x = MARGIN + text.width() + 14.0;
    scene.text(text);
    let remark = scene::cut(remark, WIDTH - MARGIN - x, 12.0, false, false);
    scene.text(Text::new(x, y, 12.0, remark).fill(colour::SOFT));
    scene.line(format!("M{MARGIN} {0}H{1}", y + 9.0, WIDTH - MARGIN), colour::LINE, 1.0);
}

/// The colour of a state.
const fn fill(state: QpState) -> &'static str {
    match state {
        QpState::Reset => "#c3cad3",
        QpState::Init => "#8ccbf2",
        QpState::Rtr => "#f3c04f",
        QpState::Rts => "#35b08c",
        QpState::Sqd => "#cf9bc0",
        QpState::Sqe => "#f0a58f",
        QpState::Err => "#d9503f",
    }
}

const fn outline(state: QpState) -> &'static str {
    match state {
        QpState::Err | QpState::Sqe => colour::RED,
        _ => "#7b8695",
    }
}

#[cfg(test)]
mod tests;

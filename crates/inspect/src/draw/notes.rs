//! What went wrong, in words: a numbered list below the picture.

use glassnic_explain::Lang;

use super::scene::{Area, Scene, Text, colour, wrap};
use super::story::{MarkKind, Story};
use super::{MARGIN, WIDTH, heading};
use crate::words::both;

/// Notes that are written down.
const SHOWN: usize = 12;

/// What went wrong, each once.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// In the order of time: its words without numbers, an instance of it, and how often it was.
    all: Vec<(String, String, usize)>,
}

impl Notes {
    /// The number of a note, from 1 on; none where it is not written down.
    pub(super) fn number(&self, why: &str) -> Option<usize> {
        let key = kind(why);
        let index = self.all.iter().position(|(known, ..)| *known == key)?;
        (index < SHOWN).then_some(index + 1)
    }
}

/// The same for all QPs: numbers in hexadecimal are left out.
fn kind(why: &str) -> String {
    let mut out = String::new();
    let mut rest = why;
    while let Some((before, after)) = rest.split_once("0x") {
        out.push_str(before);
        out.push('#');
        rest = after.trim_start_matches(|letter: char| letter.is_ascii_hexdigit());
    }
    out + rest
}

pub(super) fn collect(story: &Story) -> Notes {
    let mut wrongs: Vec<_> =
        story.lives.iter().flat_map(|life| &life.marks).filter(|mark| mark.kind == MarkKind::Wrong).collect();
    wrongs.sort_by_key(|mark| mark.at_ns);
    let mut notes = Notes::default();
    for mark in wrongs {
        let key = kind(&mark.why);
        match notes.all.iter_mut().find(|(known, ..)| *known == key) {
            Some((.., count)) => *count += 1,
            None => notes.all.push((key, mark.why.clone(), 1)),
        }
    }
    notes
}

/// Writes them from `y` on. Gives where it ends.
pub(super) fn draw(lang: Lang, scene: &mut Scene, story: &Story, notes: &Notes, y: f64) -> f64 {
    let mut y = y;
    if !notes.all.is_empty() {
        heading(scene, y + 24.0, lang.pick("Errors and refusals", "错误与拒绝"), "");
        y += 48.0;
    }
    for (index, (_, why, count)) in notes.all.iter().take(SHOWN).enumerate() {
        let words = match count {
            1 => why.clone(),
            _ => both!(lang, "{why}  (and {} more like it)", "{why}（另有 {} 次同样的）", count - 1),
        };
        let lines = wrap(&words, WIDTH - 2.0 * MARGIN - 44.0, 12.0, false, 4);
        let height = 16.0 * lines.len() as f64 + 8.0;
        scene.rect(Area::new(MARGIN, y - 15.0, WIDTH - 2.0 * MARGIN, height), 4.0, colour::PALE_RED, "");
        scene.text(Text::new(MARGIN + 10.0, y, 12.0, (index + 1).to_string()).bold().fill(colour::RED));
        for (line, words) in lines.into_iter().enumerate() {
            scene.text(Text::new(MARGIN + 34.0, y + 16.0 * line as f64, 12.0, words));
        }
        y += height + 6.0;
    }
    if notes.all.len() > SHOWN {
        let more = notes.all.len() - SHOWN;
        let words = both!(lang, "… and {more} other kinds", "……另有 {more} 种");
        scene.text(Text::new(MARGIN + 34.0, y, 12.0, words).fill(colour::SOFT));
        y += 22.0;
    }
    if story.lost > 0 {
        let words = both!(
            lang,
            "{} records were overwritten before they were read: what they told is missing here.",
            "有 {} 条记录在读取之前已被覆盖：它们的内容未画出。",
            story.lost
        );
        scene.text(Text::new(MARGIN, y + 10.0, 12.0, words).fill(colour::RED));
        y += 24.0;
    }
    y
}

//! What a picture consists of: shapes at places, in pixels. Layouts make it, [`super::svg`] writes it down.

use unicode_width::UnicodeWidthChar;

/// Colours that people with any kind of colour vision tell apart, on white (after Okabe and Ito).
pub(super) mod colour {
    pub(crate) const INK: &str = "#1b2430";
    pub(crate) const SOFT: &str = "#5b6675";
    pub(crate) const LINE: &str = "#d5dae1";
    pub(crate) const PANEL: &str = "#f6f8fa";
    pub(crate) const WHITE: &str = "#ffffff";
    pub(crate) const RED: &str = "#c40d24";
    pub(crate) const PALE_RED: &str = "#fdecee";
    pub(crate) const BLUE: &str = "#0b62a3";
}

/// A shape.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A rectangle with round corners.
    Rect {
        /// Where and how large.
        area: Area,
        /// Radius of its corners.
        radius: f64,
        /// Its colour.
        fill: &'static str,
        /// The colour of its outline; empty for none.
        stroke: &'static str,
        /// Whether the outline is dashed.
        dashed: bool,
    },
    /// Lines, as SVG's path data has them.
    Path {
        /// The path data.
        data: String,
        /// The colour inside; empty for none.
        fill: &'static str,
        /// The colour of the lines; empty for none.
        stroke: &'static str,
        /// Their width.
        width: f64,
        /// Whether they are dashed.
        dashed: bool,
    },
    /// Words.
    Text(Text),
}

/// Where something is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Its left edge.
    pub x: f64,
    /// Its upper edge.
    pub y: f64,
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
}

impl Area {
    pub(super) const fn new(x: f64, y: f64, width: f64, height: f64) -> Self {
        Self { x, y, width, height }
    }

    /// Whether two have more than an edge in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.x < other.x + other.width
            && other.x < self.x + self.width
            && self.y < other.y + other.height
            && other.y < self.y + self.height
    }
}

/// Which point of a text its place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Its left end.
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}

/// A line of words.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// Where its anchor is.
    pub x: f64,
    /// Its base line.
    pub y: f64,
    /// Height of the letters, as fonts count it.
    pub size: f64,
    /// Which point `x` is.
    pub anchor: Anchor,
    /// Whether it is bold.
    pub bold: bool,
    /// Whether all its letters are as wide as each other.
    pub mono: bool,
    /// Its colour.
    pub fill: &'static str,
    /// The words.
    pub words: String,
}

impl Text {
    pub(super) fn new(x: f64, y: f64, size: f64, words: impl Into<String>) -> Self {
        let (anchor, fill, words) = (Anchor::Start, colour::INK, words.into());
        Self { x, y, size, anchor, bold: false, mono: false, fill, words }
    }

    pub(super) fn fill(self, fill: &'static str) -> Self {
        Self { fill, ..self }
    }

    pub(super) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(super) fn mono(self) -> Self {
        Self { mono: true, ..self }
    }

    pub(super) fn anchor(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    /// How wide it is at most, whatever font a viewer has.
    #[must_use]
    pub fn width(&self) -> f64 {
        width(&self.words, self.size, self.mono, self.bold)
    }

    /// The room that it takes.
    #[must_use]
    pub fn area(&self) -> Area {
        let width = self.width();
        let left = match self.anchor {
            Anchor::Start => self.x,
            Anchor::Middle => self.x - width / 2.0,
            Anchor::End => self.x - width,
        };
        // Ascenders and descenders of common fonts.
        Area::new(left, self.y - 0.8 * self.size, width, self.size)
    }
}

/// The width of words, as DejaVu has it, which is wider than the other common fonts.
pub(super) fn width(words: &str, size: f64, mono: bool, bold: bool) -> f64 {
    let letter = |letter: char| match letter {
        _ if letter.width().unwrap_or(0) > 1 => 1.0,
        _ if mono => 0.603,
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' | '!' => 0.35,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' => 0.42,
        'm' | 'M' | 'w' | 'W' | '→' | '…' | '@' | '%' | '—' => 1.0,
        'A'..='Z' | '_' | '=' | '×' | '+' | '<' | '>' | '#' => 0.78,
        _ => 0.64,
    };
    let all: f64 = words.chars().map(letter).sum();
    all * size * if bold && !mono { 1.1 } else { 1.0 }
}

/// Words cut so that they fit.
pub(super) fn cut(words: &str, room: f64, size: f64, mono: bool, bold: bool) -> String {
    if width(words, size, mono, bold) <= room {
        return words.to_owned();
    }
    let mut out = String::new();
    for letter in words.chars() {
        out.push(letter);
        if width(&out, size, mono, bold) + width("…", size, mono, bold) > room {
            out.pop();
            break;
        }
    }
    out.push('…');
    out
}

/// Words on lines that fit, at most `lines` of them; the last is cut.
pub(super) fn wrap(words: &str, room: f64, size: f64, mono: bool, lines: usize) -> Vec<String> {
    let mut out: Vec<String> = vec![String::new()];
    for part in pieces(words) {
        let Some(line) = out.last_mut() else { break };
        if line.is_empty()
            || width(line, size, mono, false) + width(part.trim_end(), size, mono, false) <= room
        {
            line.push_str(part);
        } else {
            out.push(part.to_owned());
        }
    }
    if out.len() > lines {
        let rest = out.split_off(lines.max(1) - 1).concat();
        out.push(rest);
    }
    out.iter().map(|line| cut(line.trim_end(), room, size, mono, false)).collect()
}

/// Where a line may be broken: behind spaces, and around each Chinese character.
fn pieces(words: &str) -> impl Iterator<Item = &str> {
    let mut rest = words;
    std::iter::from_fn(move || {
        let mut letters = rest.char_indices();
        let (_, first) = letters.next()?;
        let wide = |letter: char| letter.width().unwrap_or(0) > 1;
        let end = match wide(first) {
            true => first.len_utf8(),
            false => {
                let mut end = rest.len();
                let mut space = first == ' ';
                for (at, letter) in letters {
                    if wide(letter) || (space && letter != ' ') {
                        end = at;
                        break;
                    }
                    space = letter == ' ';
                }
                end
            }
        };
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

/// A picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// What it shows, for those who do not see it.
    pub title: String,
    /// The language of its words, as `en`.
    pub lang: &'static str,
    /// What it consists of; the later are drawn over the earlier.
    pub shapes: Vec<Shape>,
}

impl Scene {
    pub(super) fn text(&mut self, text: Text) {
        self.shapes.push(Shape::Text(text));
    }

    pub(super) fn rect(&mut self, area: Area, radius: f64, fill: &'static str, stroke: &'static str) {
        self.shapes.push(Shape::Rect { area, radius, fill, stroke, dashed: false });
    }

    pub(super) fn dashed(&mut self, area: Area, radius: f64, fill: &'static str, stroke: &'static str) {
        self.shapes.push(Shape::Rect { area, radius, fill, stroke, dashed: true });
    }

    /// A shape filled with a colour.
    pub(super) fn filled(&mut self, data: String, fill: &'static str) {
        self.shapes.push(Shape::Path { data, fill, stroke: "", width: 0.0, dashed: false });
    }

    /// Lines.
    pub(super) fn line(&mut self, data: String, stroke: &'static str, width: f64) {
        self.shapes.push(Shape::Path { data, fill: "", stroke, width, dashed: false });
    }

    /// An arrow to the right or left, as long as it says.
    pub(super) fn arrow(&mut self, x: f64, y: f64, to: f64, stroke: &'static str) {
        let back = if to > x { -5.0 } else { 5.0 };
        self.line(format!("M{x:.1} {y:.1}H{:.1}", to + back / 2.0), stroke, 1.3);
        let (base, up, down) = (to + back, y - 3.5, y + 3.5);
        self.filled(format!("M{to:.1} {y:.1}L{base:.1} {up:.1}L{base:.1} {down:.1}Z"), stroke);
    }

    /// The words in it.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        self.shapes.iter().filter_map(|shape| match shape {
            Shape::Text(text) => Some(text),
            _ => None,
        })
    }
}

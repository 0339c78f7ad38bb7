//! A scene as SVG.

use std::fmt::Write;

use super::scene::{Anchor, Scene, Shape, Text};

const SANS: &str =
    "'DejaVu Sans','Segoe UI',Helvetica,Arial,'Noto Sans CJK SC','PingFang SC','Microsoft YaHei',sans-serif";
const MONO: &str = "'DejaVu Sans Mono',Menlo,Consolas,'Noto Sans Mono CJK SC',monospace";

/// The scene as an SVG document.
#[must_use]
pub fn write(scene: &Scene) -> String {
    let Scene { width, height, title, lang, shapes } = scene;
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         xml:lang=\"{lang}\" role=\"img\">\n<title>{}</title>\n<style>text{{font-family:{SANS};white-space:pre}}\
         .m{{font-family:{MONO}}}.b{{font-weight:bold}}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        escaped(title)
    );
    for shape in shapes {
        self::shape(&mut out, shape);
    }
    out.push_str("</svg>\n");
    out
}

fn shape(out: &mut String, shape: &Shape) {
    let _ = match shape {
        Shape::Rect { area, radius, fill, stroke, dashed } => {
            let (x, y, w, h) = (round(area.x), round(area.y), round(area.width), round(area.height));
            let round = if *radius > 0.0 { format!(" rx=\"{radius}\"") } else { String::new() };
            let lines = lines(stroke, 1.2, *dashed);
            writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"{round} fill=\"{}\"{lines}/>",
                none(fill)
            )
        }
        Shape::Path { data, fill, stroke, width, dashed } => {
            writeln!(
                out,
                "<path d=\"{}\" fill=\"{}\"{}/>",
                escaped(data),
                none(fill),
                lines(stroke, *width, *dashed)
            )
        }
        Shape::Text(text) => writeln!(out, "{}", words(text)),
    };
}

fn words(text: &Text) -> String {
    let class = match (text.mono, text.bold) {
        (false, false) => "",
        (false, true) => " class=\"b\"",
        (true, false) => " class=\"m\"",
        (true, true) => " class=\"m b\"",
    };
    let anchor = match text.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let (x, y, size, fill) = (round(text.x), round(text.y), text.size, text.fill);
    format!(
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{class}{anchor} fill=\"{fill}\">{}</text>",
        escaped(&text.words)
    )
}

fn lines(stroke: &str, width: f64, dashed: bool) -> String {
    if stroke.is_empty() {
        return String::new();
    }
    let dashes = if dashed { " stroke-dasharray=\"4 3\"" } else { "" };
    format!(" stroke=\"{stroke}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dashes}")
}

fn none(fill: &str) -> &str {
    if fill.is_empty() { "none" } else { fill }
}

/// To a tenth of a pixel.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Words as XML may have them. They come from other processes too, whose names may hold what XML forbids.
fn escaped(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for letter in words.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            control if control.is_control() || matches!(control, '\u{fffe}' | '\u{ffff}') => {
                out.push('\u{fffd}')
            }
            other => out.push(other),
        }
    }
    out
}

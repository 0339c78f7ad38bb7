//! The guided tours of `docs/` run: every command in them is executed, and what they show is what it prints.
//!
//! A tour is a Markdown page. In its `console` blocks, a line that begins with `$ ` is a command for the shell, and the lines
//! behind it are what it prints. `<!-- tour: NAME -->` lets the program of the tour go on until it says NAME. Numbers of queue
//! pairs and processes are the page's own, see [`Names`]; times, keys and addresses may be any.
//! `GLASSNIC_UPDATE=1` writes into the pages what the commands print now.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use glassnic_e2e::{c_program, product, slot};
use regex::{Captures, Regex};

#[test]
fn the_tour_shows_what_the_product_prints() {
    let _slot = slot::take();
    tour("four-operations.md", "en");
}

#[test]
fn the_chinese_tour_shows_what_the_product_prints() {
    let _slot = slot::take();
    tour("four-operations.zh.md", "zh");
}

/// The frame that the article prints, as text.
const FRAME: &str = "\
0000 00 11 22 33 44 55 00 11 22 33 44 56 08 00 45 00
0010 00 5c 00 01 00 00 40 11 77 cb c0 a8 01 01 c0 a8
0020 01 02 04 00 00 00 00 48 00 00 00 00 00 00 00 00
0030 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0040 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0050 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0060 00 00 00 00
";

/// Walks through a page.
fn tour(page: &str, lang: &str) {
    let path = product::workspace().join("docs").join(page);
    let written = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (now, picture) = Walk::start(lang).through(&written);
    roxmltree::Document::parse(&picture).unwrap();
    let shown = path.with_file_name("pictures").join(page.replace(".md", ".svg"));
    if std::env::var_os("GLASSNIC_UPDATE").is_some() {
        fs::write(&path, now).unwrap();
        fs::create_dir_all(shown.parent().unwrap()).unwrap();
        fs::write(&shown, picture).unwrap();
        return;
    }
    assert!(shown.exists(), "{page} shows {}; GLASSNIC_UPDATE=1 makes it", shown.display());
    let (was, is) = (words(&written), words(&now));
    for (at, (old, new)) in was.iter().zip(&is).enumerate() {
        let around = |words: &[String]| words[at.saturating_sub(12)..words.len().min(at + 4)].join(" ");
        let (shown, printed) = (around(&was), around(&is));
        assert!(old == new, "{page} shows … {shown} …\nbut it is … {printed} …\nGLASSNIC_UPDATE=1 renews it");
    }
    assert_eq!(was.len(), is.len(), "{page} shows more or less than there is:\n{now}");
}

/// The words of a page, wherever its lines break, without what differs from run to run.
fn words(page: &str) -> Vec<String> {
    let lines: Vec<String> = page.lines().map(essence).collect();
    lines.join(" ").split_whitespace().map(str::to_owned).collect()
}

/// A line without what differs from run to run.
fn essence(line: &str) -> String {
    let rules = [
        (r"\b\d+(\.\d+)? ?(ns|us|µs|ms|s|min|h)\b", "TIME"),
        (r"\b(pid|process|thread|进程|线程) ?\d+", "$1 N"),
        // QP numbers have four digits at least.
        (r"\b0x[0-9a-f]{4,}|\+0x[0-9a-f]+", "0xN"),
        (r"\b(rnr_received) \d+", "$1 N"),
        // A dump: bytes, and their text.
        (r"^(\s*(0x)?[0-9a-f]{2,4})(\s+[0-9a-f]{2}\b){8,}.*", "$1 BYTES"),
        (r"\b[0-9a-f]{8,}\b", "HEX"),
        (r"\b(record|记录) \d+", "$1 N"),
        (r"\d+ (times|RNR|次|个 RNR)", "N"),
        (r"\d{4,}", "N"),
        (r"\s+", " "),
        (r"[─━═-]{3,}", "LINE"),
    ];
    rules.iter().fold(line.to_owned(), |line, (rule, with)| {
        Regex::new(rule).unwrap().replace_all(&line, *with).trim().to_owned()
    })
}

/// The page's names for what has another number each time.
struct Names(Vec<(String, &'static str)>);

impl Names {
    /// With the columns of a table where they were, although the names are shorter than what they stand for.
    fn to_page(&self, text: &str) -> String {
        let cells = Regex::new(r"(\S+(?: \S+)*)( {2,})?").unwrap();
        let renamed = cells.replace_all(text, |cell: &Captures<'_>| {
            let named = self
                .0
                .iter()
                .fold(cell[1].to_owned(), |text, (real, name)| whole(real).replace_all(&text, *name).into());
            let gap = cell.get(2).map_or(0, |gap| gap.len() + cell[1].len().saturating_sub(named.len()));
            named + &" ".repeat(gap)
        });
        renamed.into()
    }

    fn to_real(&self, text: &str) -> String {
        self.0
            .iter()
            .fold(text.to_owned(), |text, (real, name)| whole(name).replace_all(&text, real.as_str()).into())
    }
}

fn whole(word: &str) -> Regex {
    Regex::new(&format!(r"\b{}\b", regex::escape(word))).unwrap()
}

/// A walk, with the program of the tour.
struct Walk {
    folder: PathBuf,
    lang: String,
    program: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// What it does next waits for a line.
    waits: bool,
    names: Names,
}

impl Walk {
    fn start(lang: &str) -> Self {
        let folder = product::scratch().join(format!("tour-{lang}"));
        fs::create_dir_all(folder.join("nics")).unwrap();
        fs::set_permissions(folder.join("nics"), fs::Permissions::from_mode(0o700)).unwrap();
        let source = product::workspace().join("e2e/c/tour.c");
        fs::copy(c_program::compile_at(&source), folder.join("tour")).unwrap();
        for (name, text) in [
            ("article.hex", FRAME),
            ("small.toml", "max_qp = 4\n"),
            ("slow.toml", "write_back_ns = 20000000\n"),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        let mut command = shell(&folder, lang, "exec glassnic run -- ./tour 2>tour.err");
        let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = program.stdin.take();
        let stdout = BufReader::new(program.stdout.take().unwrap());
        let names = Names(vec![(program.id().to_string(), "4711")]);
        Self { folder, lang: lang.into(), program, stdin, stdout, waits: false, names }
    }

    /// The page with what its commands print now, and the picture that they draw.
    fn through(mut self, page: &str) -> (String, String) {
        let mut lines = Vec::new();
        // In a block of commands: whether its command's output has been put in place of the page's.
        let (mut console, mut printed) = (false, false);
        for line in page.lines() {
            if let Some(step) = line.strip_prefix("<!-- tour: ") {
                self.go_on(step.trim_end_matches(" -->"));
            }
            if line.starts_with("```") {
                (console, printed) = (line == "```console", false);
            } else if let Some(command) = line.strip_prefix("$ ").filter(|_| console) {
                lines.push(line.to_owned());
                lines.extend(self.run(command).lines().map(|line| line.trim_end().to_owned()));
                printed = true;
                continue;
            } else if console && printed {
                continue;
            }
            lines.push(line.to_owned());
        }
        // At the end of its input it closes what it has and ends.
        self.stdin = None;
        self.program.wait().unwrap();
        (lines.join("\n") + "\n", fs::read_to_string(self.folder.join("life.svg")).unwrap())
    }

    /// Lets the program go on until it has done a step.
    fn go_on(&mut self, step: &str) {
        if std::mem::replace(&mut self.waits, true) {
            self.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        }
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the program ended before {step}");
            let words: Vec<_> = line.split_whitespace().collect();
            match words[..] {
                ["qps", a, b] => self.names.0.extend([(a.into(), "0x1234"), (b.into(), "0x1235")]),
                [word] if word == step => return,
                _ => {}
            }
        }
    }

    fn run(&self, command: &str) -> String {
        let output = shell(&self.folder, &self.lang, &self.names.to_real(command)).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        self.names.to_page(&String::from_utf8_lossy(&text))
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// A command of the page: `glassnic` is in the search path, the loopback interface is the device, and no NIC of another test
/// is in sight.
fn shell(folder: &Path, lang: &str, command: &str) -> Command {
    let glassnic = product::glassnic();
    let path = std::env::var("PATH").unwrap_or_default();
    let bin = glassnic.parent().unwrap_or(Path::new("."));
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder).stdin(Stdio::null());
    shell.env("PATH", format!("{}:{path}", bin.display()));
    shell
        .env("GLASSNIC_DIR", folder.join("nics"))
        .env("GLASSNIC_DEVICES", "glass0=lo")
        .env("GLASSNIC_LANG", lang);
    shell
}

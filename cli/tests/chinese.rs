//! With GLASSNIC_LANG=zh no sentence is English.

use std::io::Write;
use std::process::{Command, Stdio};

/// What `glassnic` prints for a command line and an input: both streams.
fn said(words: &[&str], input: &[u8]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_glassnic"));
    command.env("GLASSNIC_LANG", "zh").env_remove("GLASSNIC_PROFILE").args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // One that does not read it is told nothing.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// Whether a line has a sentence of English: four words in a row that are no names, values or options.
fn is_english(line: &str) -> bool {
    let is_word = |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_lowercase());
    let words: Vec<bool> = line.split_whitespace().map(is_word).collect();
    words.windows(4).any(|four| four.iter().all(|word| *word))
}

fn assert_chinese(words: &[&str], input: &[u8]) {
    let text = said(words, input);
    assert!(!text.is_ascii(), "{words:?}: {text}");
    for line in text.lines() {
        assert!(!is_english(line), "{words:?}: {line}");
    }
}

const FRAME: &[u8] = b"0000 00 11 22 33 44 55 00 11 22 33 44 56 08 00 45 00
0010 00 5c 00 01 00 00 40 11 77 cb c0 a8 01 01 c0 a8
0020 01 02 04 00 00 00 00 48 00 00 00 00 00 00 00 00
0030 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0040 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0050 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0060 00 00 00 00
";

#[test]
fn help_is_chinese() {
    for words in ["--help", "help", "capture --help", "qp -h", "qp help log", "doctor --help", "draw -h"] {
        assert_chinese(&words.split(' ').collect::<Vec<_>>(), b"");
    }
}

#[test]
fn frames_are_told_in_chinese() {
    assert_chinese(&["decode", "-"], FRAME);
    assert_chinese(&["decode", "-"], &FRAME.repeat(2));
    assert_chinese(&["decode", "-", "--json"], FRAME);
    insta::assert_snapshot!(said(&["decode", "-"], FRAME));
}

#[test]
fn errors_are_told_in_chinese() {
    for input in [&b""[..], b"xy", b"00 11 22", b"0000 00 11\n0010 22 33", b"\0\0", b"\xd4\xc3\xb2\xa1"] {
        assert_chinese(&["decode", "-"], input);
    }
    let words = [
        "decode /no/such/file",
        "decode /proc",
        "profiles irmda",
        "profiles /no/such.toml",
        "doctor 1",
        "doctor twelve",
        "trace --pid 1",
        "trace -o /no/such/folder/x -- true",
        "capture -o x",
        "capture -o /no/such/folder/x -- true",
        "draw -o /no/such/folder/x -- true",
        "run /etc/passwd",
        "run",
        "bogus",
        "",
    ];
    for words in words {
        assert_chinese(&words.split_whitespace().collect::<Vec<_>>(), b"");
    }
}

#[test]
fn problems_of_the_environment_are_told_in_chinese() {
    for (name, value) in [
        ("GLASSNIC_DEVICES", "glass0"),
        ("GLASSNIC_PROFILE", "irmda"),
        ("GLASSNIC_DIR", "/etc"),
        ("GLASSNIC_LINK", "tcp"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_glassnic"));
        let output = command.env("GLASSNIC_LANG", "zh").env(name, value).arg("devices").output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let line =
            text.lines().find(|line| line.contains(value)).unwrap_or_else(|| panic!("{value}: {text}"));
        assert!(!line.is_ascii() && !is_english(line), "{line}");
    }
}

//! `docs/faults.md` names tests; this checks that they are there.

use anyhow::{Context, Result};
use std::fs;

use crate::cargo;

const PAGE: &str = "docs/faults.md";

/// How a row without a test begins its second cell.
const REASON: &str = "not here";

/// Faults of the page: a row that names nothing, or a test that is not there.
///
/// # Errors
/// When the page cannot be read.
pub(crate) fn check() -> Result<Vec<String>> {
    let page = fs::read_to_string(cargo::root().join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    Ok(faults(&page, |file| fs::read_to_string(cargo::root().join(file)).ok()))
}

fn faults(page: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (index, line) in page.lines().enumerate() {
        let mut fault = |what: String| faults.push(format!("{PAGE}:{}: {what}", index + 1));
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let &[_, shown] = cells.as_slice() else { continue };
        if !line.starts_with('|') || shown == "the test" {
            continue;
        }
        let mut tests = tests(shown).peekable();
        if tests.peek().is_none() && !shown.starts_with(REASON) {
            fault("neither a test nor a reason".into());
        }
        for (file, name) in tests {
            match read(file) {
                None => fault(format!("{file} does not exist")),
                Some(text) if !has_test(&text, name) => fault(format!("{file} has no {name}")),
                Some(_) => {}
            }
        }
    }
    faults
}

/// The tests in a cell, each as `` `file: name` ``.
fn tests(cell: &str) -> impl Iterator<Item = (&str, &str)> {
    cell.split('`').skip(1).step_by(2).filter_map(|text| text.split_once(": "))
}

/// A function of that name, or a row of a table of programs.
fn has_test(text: &str, name: &str) -> bool {
    let row = format!("{name} \"");
    let mut lines = text.lines().map(str::trim_start);
    text.contains(&format!(" {name}(")) || lines.any(|line| line.starts_with(&row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_test_that_exists_or_a_reason() {
        let page = "| the fault | the test |\n|---|---|\n\
                    | one | `a.rs: there`, `a.rs: row`; more |\n\
                    | two | not here: nothing to fail |\n\
                    | three | `a.rs: gone` |\n| four | `b.rs: there` |\n| five | we hope |\n";
        let read = |file: &str| (file == "a.rs").then(|| "fn there() {}\n  row \"program\" [];\n".to_owned());
        let expected = [
            "docs/faults.md:5: a.rs has no gone",
            "docs/faults.md:6: b.rs does not exist",
            "docs/faults.md:7: neither a test nor a reason",
        ];
        assert_eq!(faults(page, read), expected);
    }
}

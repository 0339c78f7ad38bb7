//! The programs of the catalogue: made wrongly each is told why, made right none is told anything.

use std::path::{Path, PathBuf};

use glassnic_e2e::process::{Finished, Program};
use glassnic_e2e::{c_program, product, slot};
use glassnic_explain::cases::{Case, Cases};
use serde_json::Value;

fn folder() -> PathBuf {
    product::workspace().join("docs/explain")
}

fn cases() -> Vec<Case> {
    let files = std::fs::read_dir(folder().join("c")).unwrap_or_else(|error| panic!("{error}"));
    let programs = files
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "c"));
    let sources = programs.map(|path| {
        let source =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), source)
    });
    Cases::of(sources, "").unwrap_or_else(|error| panic!("{error}")).programs
}

fn run(program: &Path, case: &Case, form: &str, lang: &str, explain: &str) -> Finished {
    let words = [program.display().to_string(), form.to_owned()];
    let program = Program::new(words).env("GLASSNIC_LANG", lang).env("GLASSNIC_EXPLAIN", explain);
    let Some(profile) = &case.profile else { return program.run() };
    // A file lies beside the programs; what is no file is a profile that comes with the product.
    let file = folder().join("c").join(profile);
    let profile = if file.exists() { file.display().to_string() } else { profile.clone() };
    program.env("GLASSNIC_PROFILE", &profile).run()
}

/// What is not as it should be with a case, in a line each.
fn faults(case: &Case) -> Vec<String> {
    let program = c_program::compile_at(&folder().join("c").join(format!("{}.c", case.name)));
    let mut faults = Vec::new();
    let mended = run(&program, case, "mended", "en", "1");
    if !mended.succeeded() || !mended.stderr.is_empty() || !mended.stdout.is_empty() {
        faults.push(format!("{}: the mended form is not silent\n{mended}", case.name));
    }
    let broken = run(&program, case, "broken", "en", "1");
    let unsaid: Vec<_> = case.says.iter().filter(|phrase| !broken.stderr.contains(*phrase)).collect();
    if !broken.succeeded() || !unsaid.is_empty() {
        faults.push(format!("{}: does not say {unsaid:?}\n{broken}", case.name));
    }
    if !case.says.is_empty() {
        let chinese = run(&program, case, "broken", "zh", "1");
        if !chinese.stderr.lines().all(|line| line.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))) {
            faults.push(format!("{}: a line without Chinese\n{chinese}", case.name));
        }
        let json = run(&program, case, "broken", "en", "json");
        let object = |line: &str| {
            serde_json::from_str::<Value>(line)
                .is_ok_and(|told| told["kind"].is_string() && told["remedy"].is_string())
        };
        if json.stderr.is_empty() || !json.stderr.lines().all(object) {
            faults.push(format!("{}: a line that is no JSON\n{json}", case.name));
        }
    }
    faults
}

/// All cases, or those whose names contain `GLASSNIC_CASE`.
#[test]
fn a_broken_program_is_told_why_and_a_mended_one_nothing() {
    let _slot = slot::take();
    let wanted = std::env::var("GLASSNIC_CASE").unwrap_or_default();
    let chosen = cases().into_iter().filter(|case| case.name.contains(&wanted));
    let faults: Vec<_> = chosen.flat_map(|case| faults(&case)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The library alone has nothing to refuse in these: what is wrong only somebody sees who looks at the whole, as a doctor does.
/// Here they are run in both forms, but only the silence of the mended one is tested.
const FOR_THE_DOCTOR: &[&str] = &[
    "q14_asleep",
    "q16_not_acknowledged",
    "r4_waits_for_ever",
    "r5_long_rnr_timer",
    "r17_no_room_for_grh",
    "r21_lost_on_uc",
    "r22_both_wait",
];

#[test]
fn programs_without_an_explanation_are_the_listed_ones() {
    let silent: Vec<_> =
        cases().into_iter().filter(|case| case.says.is_empty()).map(|case| case.name).collect();
    assert_eq!(silent, FOR_THE_DOCTOR);
}

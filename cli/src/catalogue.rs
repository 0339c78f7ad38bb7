//! The catalogue of explanations as files: what `docs/explain` holds.

use std::fs;
use std::path::{Path, PathBuf};

use glassnic_explain::cases::Cases;
use glassnic_explain::{Lang, both, catalogue};

use crate::{fault, lang};

/// Writes `en.md` and `zh.md`, with the programs that lie in `c/` below the folder.
///
/// # Errors
/// One line when the folder cannot be written, or its programs cannot be read.
pub(crate) fn write(folder: &Path) -> Result<(), String> {
    let cases = read(folder)?;
    let pages = || {
        fs::create_dir_all(folder)?;
        let page = |lang: &Lang| folder.join(lang.code()).with_extension("md");
        Lang::ALL.iter().try_for_each(|lang| fs::write(page(lang), catalogue(*lang, &cases)))
    };
    pages().map_err(|error| {
        let folder = folder.display();
        fault(both!(lang(), "cannot write the catalogue to {folder}", "不能把目录写入 {folder}"), &error)
    })
}

/// The programs and the table beside the pages; a folder without them has none.
fn read(folder: &Path) -> Result<Cases, String> {
    let text = |path: &Path| fs::read_to_string(path).map_err(|error| fault(path.display(), &error));
    let files = fs::read_dir(folder.join("c")).into_iter().flatten().flatten().map(|entry| entry.path());
    let programs = files.filter(|path| path.extension().is_some_and(|end| end == "c"));
    let source = |path: PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, text(&path)?))
    };
    let sources = programs.map(source).collect::<Result<Vec<_>, String>>()?;
    let table = folder.join("reports.txt");
    Cases::of(sources, &if table.exists() { text(&table)? } else { String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/explain")
    }

    /// What is checked in is what the rules say: `cargo run -p glassnic-cli -- catalogue docs/explain` writes it anew.
    #[test]
    fn the_catalogue_is_up_to_date() {
        let cases = read(&folder()).unwrap();
        for lang in Lang::ALL {
            let page = fs::read_to_string(folder().join(lang.code()).with_extension("md")).unwrap();
            assert!(catalogue(*lang, &cases) == page, "docs/explain/{}.md is not up to date", lang.code());
        }
    }

    #[test]
    fn every_report_has_a_program_or_a_reason_and_programs_name_rules_that_exist() {
        let cases = read(&folder()).unwrap();
        assert!(cases.programs.len() > 40 && cases.rows.len() > 80);
        assert_eq!(cases.faults(), Vec::<String>::new());
        let page = catalogue(Lang::En, &cases);
        let has = |text: String| assert!(page.contains(&text), "{text}");
        for case in &cases.programs {
            case.rules.iter().for_each(|rule| has(format!(" {rule}\n\nPrograms: ")));
            case.checks.iter().for_each(|check| has(format!(" {check}]")));
        }
    }
}

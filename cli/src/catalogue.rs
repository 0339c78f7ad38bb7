//! The catalogue of explanations as files: what `docs/explain` holds.

use std::fs;
use std::path::Path;

use glassnic_explain::cases::Cases;
use glassnic_explain::{Lang, catalogue};

/// Writes `en.md` and `zh.md`, with the programs that lie in `c/` below the folder.
///
/// # Errors
/// One line when the folder cannot be written, or its programs cannot be read.
pub(crate) fn write(folder: &Path) -> Result<(), String> {
    let cases = Cases::read(folder)?;
    let pages = || {
        fs::create_dir_all(folder)?;
        let page = |lang: &Lang| folder.join(lang.code()).with_extension("md");
        Lang::ALL.iter().try_for_each(|lang| fs::write(page(lang), catalogue(*lang, &cases)))
    };
    pages().map_err(|error| format!("cannot write the catalogue to {}: {error}", folder.display()))
}

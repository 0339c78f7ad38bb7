//! The catalogue of explanations as files: what `docs/explain` holds.

use std::fs;
use std::path::Path;

use glassnic_explain::{Lang, catalogue};

/// Writes `en.md` and `zh.md`.
///
/// # Errors
/// One line when the folder cannot be written.
pub(crate) fn write(folder: &Path) -> Result<(), String> {
    let pages = || {
        fs::create_dir_all(folder)?;
        Lang::ALL
            .iter()
            .try_for_each(|lang| fs::write(folder.join(lang.code()).with_extension("md"), catalogue(*lang)))
    };
    pages().map_err(|error| format!("cannot write the catalogue to {}: {error}", folder.display()))
}

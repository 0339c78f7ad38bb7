//! Man pages, made from the same definitions as `--help`.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use glassnic_explain::both;

use crate::{fault, lang};

/// Writes `glassnic.1` and a page for each visible subcommand.
///
/// # Errors
/// One line when the folder cannot be written.
pub(crate) fn write(folder: &Path) -> Result<(), String> {
    let pages = || {
        fs::create_dir_all(folder)?;
        clap_mangen::generate_to(crate::Cli::command().disable_help_subcommand(true), folder)
    };
    pages().map_err(|error| {
        let folder = folder.display();
        fault(both!(lang(), "cannot write man pages to {folder}", "不能把手册页写入 {folder}"), &error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_sound() {
        crate::Cli::command().debug_assert();
    }
}

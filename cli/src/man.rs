//! Man pages, made from the same definitions as `--help`.

use std::fs;
use std::path::Path;

use clap::CommandFactory;

/// Writes `glassnic.1` and a page for each visible subcommand.
///
/// # Errors
/// One line when the folder cannot be written.
pub(crate) fn write(folder: &Path) -> Result<(), String> {
    let pages = || {
        fs::create_dir_all(folder)?;
        clap_mangen::generate_to(crate::Cli::command().disable_help_subcommand(true), folder)
    };
    pages().map_err(|error| format!("cannot write man pages to {}: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_sound() {
        crate::Cli::command().debug_assert();
    }
}

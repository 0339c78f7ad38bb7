//! `glassnic draw`: the life of a program's queue pairs as a picture.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use glassnic_inspect::Host;
use glassnic_inspect::draw::{Source, picture, write};
use glassnic_verbs::events::QpType;
use glassnic_verbs::state::dot;

use crate::follow::{self, Follower};
use crate::{fault, lang, out};

/// What to draw.
#[derive(Args)]
pub(crate) struct Options {
    /// Only the NICs of this process; one that crashed, too
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,
    /// The SVG file; with --dot the default is standard output
    #[arg(short, long, value_name = "FILE", required_unless_present = "dot")]
    output: Option<PathBuf>,
    /// Draw the state machine of a type of QP, with all moves and their attributes, in Graphviz's language
    #[arg(
        long,
        value_name = "TYPE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "RC",
        value_parser = parse_type,
        conflicts_with_all = ["command", "pid"]
    )]
    dot: Option<QpType>,
    /// A program and its arguments, which runs as with glassnic run
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn parse_type(text: &str) -> Result<QpType, String> {
    let types = [QpType::Rc, QpType::Uc, QpType::Ud];
    let found = types.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| types.map(QpType::name).join(", "))
}

/// Draws. Gives the exit status of the program that was run, else 0.
///
/// # Errors
/// One line.
pub(crate) fn draw(options: &Options) -> Result<u8, String> {
    if let Some(kind) = options.dot {
        match &options.output {
            Some(path) => save(path, &dot(kind))?,
            None => drop(out::print(&dot(kind))?),
        }
        return Ok(0);
    }
    let path = options.output.as_deref().ok_or_else(|| lang().pick("-o names no file", "-o 没有给出文件"))?;
    if options.command.is_empty() {
        let sources = there(options.pid)?;
        save(path, &write(&picture(lang(), &sources)))?;
        return Ok(0);
    }
    // Before anything runs: nobody wants to learn afterwards that it cannot be written.
    save(path, "")?;
    let mut kept = Kept::default();
    let status = follow::program(
        &options.command,
        |_| Ok(()),
        |follower| {
            kept.look(follower);
            Ok(())
        },
    )?;
    save(path, &write(&picture(lang(), &kept.sources())))?;
    Ok(status)
}

/// NICs that there are: of a process, or all.
fn there(pid: Option<u32>) -> Result<Vec<Source>, String> {
    let host = Host::read(lang())?;
    let nics = host.nics.into_iter().filter(|nic| pid.is_none_or(|pid| pid == nic.model.pid));
    let sources: Vec<_> = nics
        .map(|nic| Source {
            pid: nic.model.pid,
            command: nic.model.command,
            device: nic.model.device,
            records: nic.records,
        })
        .collect();
    match pid.filter(|_| sources.is_empty()) {
        Some(pid) => Err(follow::no_nic(pid)),
        None => Ok(sources),
    }
}

/// Records of NICs that are followed, by their places among those.
#[derive(Default)]
struct Kept(BTreeMap<usize, Source>);

impl Kept {
    fn look(&mut self, follower: &Follower) {
        for (index, nic) in follower.nics().iter().enumerate() {
            let source = self.0.entry(index).or_insert_with(|| Source {
                pid: nic.view.pid(),
                command: String::new(),
                device: nic.view.device(),
                records: Vec::new(),
            });
            // A program may be another one by now (execve(2)).
            source.command = nic.view.command();
            let next = source.records.last().map_or(1, |record| record.seq().saturating_add(1));
            source.records.extend(nic.records(next));
        }
    }

    fn sources(self) -> Vec<Source> {
        self.0.into_values().collect()
    }
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| fault(path.display(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_in_any_case() {
        assert_eq!((parse_type("rc"), parse_type("UD")), (Ok(QpType::Rc), Ok(QpType::Ud)));
        assert_eq!(parse_type("XRC"), Err("RC, UC, UD".to_owned()));
    }
}

//! The folder: ours alone, wherever it may be.

use super::DirectoryError;
use crate::process;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The first candidate that can be used.
pub(super) fn open() -> Result<(PathBuf, OwnedFd), DirectoryError> {
    let mut first = None;
    for path in candidates() {
        match open_one(&path) {
            Ok(folder) => return Ok((path, folder)),
            Err(reason) => first = first.or(Some((path, reason))),
        }
    }
    let (path, reason) = first.unwrap_or_else(|| (PathBuf::new(), "no candidate".into()));
    Err(DirectoryError::Folder { path, reason })
}

fn candidates() -> Vec<PathBuf> {
    if let Some(chosen) = std::env::var_os("GLASSNIC_DIR").filter(|path| !path.is_empty()) {
        return vec![chosen.into()];
    }
    let name = format!("glassnic-{}-{}", rustix::process::geteuid().as_raw(), process::namespace("net"));
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let parents = [Some("/dev/shm".into()), runtime, Some("/tmp".into())];
    parents.into_iter().flatten().map(|parent: PathBuf| parent.join(&name)).collect()
}

/// Create it if need be, and make sure that nobody else can touch it. The error says why not.
pub(super) fn open_one(path: &Path) -> Result<OwnedFd, String> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(errno) => return Err(format!("cannot be created: {errno}")),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let folder =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| format!("cannot be opened: {errno}"))?;
    // The open folder is judged, not the path, which others may swap meanwhile.
    let stat = rustix::fs::fstat(&folder).map_err(|errno| errno.to_string())?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(format!("belongs to user {}", stat.st_uid));
    }
    if stat.st_mode & 0o077 != 0 {
        return Err(format!("is open to others (mode {:o}, expected 700)", stat.st_mode & 0o777));
    }
    Ok(folder)
}

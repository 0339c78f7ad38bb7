//! The folder: ours alone, wherever it may be.

use super::{DirectoryError, FolderFault};
use crate::process;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The first candidate that can be used.
pub(super) fn open() -> Result<(PathBuf, OwnedFd), DirectoryError> {
    open_first(candidates(|name| std::env::var_os(name)))
}

fn open_first(candidates: Vec<PathBuf>) -> Result<(PathBuf, OwnedFd), DirectoryError> {
    let mut first = None;
    for path in candidates {
        match open_one(&path) {
            Ok(folder) => return Ok((path, folder)),
            Err(reason) => first = first.or(Some((path, reason))),
        }
    }
    let (path, reason) = first.unwrap_or((PathBuf::new(), FolderFault::NoCandidate));
    Err(DirectoryError::Folder { path, reason })
}

fn candidates(env: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    if let Some(chosen) = env("GLASSNIC_DIR").filter(|path| !path.is_empty()) {
        return vec![chosen.into()];
    }
    let name = format!("glassnic-{}-{}", rustix::process::geteuid().as_raw(), process::namespace("net"));
    let runtime = env("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let parents = [Some("/dev/shm".into()), runtime, Some("/tmp".into())];
    parents.into_iter().flatten().map(|parent: PathBuf| parent.join(&name)).collect()
}

/// Create it if need be, and make sure that nobody else can touch it. The error says why not.
pub(super) fn open_one(path: &Path) -> Result<OwnedFd, FolderFault> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(errno) => return Err(FolderFault::NotMade(errno.into())),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty());
    let folder = folder.map_err(|errno| FolderFault::NotOpened(errno.into()))?;
    // The open folder is judged, not the path, which others may swap meanwhile.
    let stat = rustix::fs::fstat(&folder).map_err(|errno| FolderFault::NotOpened(errno.into()))?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(FolderFault::OfAnother(stat.st_uid));
    }
    if stat.st_mode & 0o077 != 0 {
        return Err(FolderFault::OpenToOthers(stat.st_mode & 0o777));
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;

    #[test]
    fn a_chosen_folder_is_the_only_candidate() {
        let chosen = candidates(|name| (name == "GLASSNIC_DIR").then(|| "/some/where".into()));
        assert_eq!(chosen, [Path::new("/some/where")]);
        let name = format!("glassnic-{}-{}", rustix::process::geteuid().as_raw(), process::namespace("net"));
        let parents = |found: Vec<PathBuf>| -> Vec<PathBuf> {
            assert!(found.iter().all(|path| path.ends_with(&name)));
            found.iter().map(|path| path.parent().unwrap().to_owned()).collect()
        };
        assert_eq!(parents(candidates(|_| None)), ["/dev/shm", "/tmp"].map(PathBuf::from));
        let runtime =
            |value: &'static str| move |name: &str| (name == "XDG_RUNTIME_DIR").then(|| value.into());
        assert_eq!(
            parents(candidates(runtime("/run/me"))),
            ["/dev/shm", "/run/me", "/tmp"].map(PathBuf::from)
        );
        assert_eq!(parents(candidates(runtime("relative"))), ["/dev/shm", "/tmp"].map(PathBuf::from));
    }

    #[test]
    fn the_first_usable_folder_is_taken_and_the_first_fault_reported() {
        let (missing, good) = (PathBuf::from("/nonexistent/glassnic"), Folder::new());
        let (path, _) = open_first(vec![missing.clone(), good.path().to_owned()]).unwrap();
        assert_eq!(path, good.path());
        let error = open_first(vec![missing.clone(), "/nonexistent/other".into()]).unwrap_err();
        assert!(matches!(error, DirectoryError::Folder { path, .. } if path == missing));
    }
}

//! A view of the file system of its own, for this process and the program that it becomes.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};

use glassnic_explain::{Lang, both};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};

use super::{CLASSES, OURS, write};
use crate::devices;
use crate::problem::{Problem, Words};
use crate::sys;

/// Where the files of devices are.
const FILES: &str = "/dev";

/// Why there is no view of its own.
#[derive(Debug)]
#[non_exhaustive]
pub enum Obstacle {
    /// There is nothing to be shown.
    NoDevices(Problem),
    /// unshare(2): this user may not have namespaces of its own.
    Namespace(io::Error),
    /// The user of the namespace cannot be named.
    User(io::Error),
    /// mount(2).
    Mount(PathBuf, io::Error),
    /// A file of ours cannot be written.
    Write(io::Error),
}

impl Obstacle {
    /// What forbids namespaces to a user, if it can be told, and what to do about it.
    fn remedy(lang: Lang) -> String {
        let setting = |name: &str| fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok();
        let is = |name, value| setting(name).is_some_and(|text| text.trim() == value);
        for (name, forbids, allows) in [
            ("kernel.unprivileged_userns_clone", "0", "1"),
            ("user.max_user_namespaces", "0", "10000"),
            ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
        ] {
            if is(name, forbids) {
                return both!(
                    lang,
                    "this system has {name}={forbids}; as root: sysctl -w {name}={allows}, or run without --sysfs",
                    "本系统设置了 {name}={forbids}；请以 root 执行 sysctl -w {name}={allows}，或不用 --sysfs 运行"
                );
            }
        }
        lang.pick(
            "run as root, or allow it in the container (Docker: --cap-add=SYS_ADMIN --security-opt seccomp=unconfined), \
             or run without --sysfs",
            "请以 root 运行，或在容器中允许它（Docker：--cap-add=SYS_ADMIN --security-opt seccomp=unconfined），\
             或不用 --sysfs 运行",
        )
        .into()
    }
}

impl Words for Obstacle {
    fn in_words(&self, lang: Lang) -> String {
        let remedy = || Self::remedy(lang);
        match self {
            Self::NoDevices(problem) => problem.in_words(lang),
            Self::Namespace(error) => {
                let error = error.in_words(lang);
                both!(
                    lang,
                    "--sysfs needs a mount namespace, and gets none ({error}): {}",
                    "--sysfs 需要一个挂载命名空间，但得不到（{error}）：{}",
                    remedy()
                )
            }
            Self::User(error) => {
                let error = error.in_words(lang);
                both!(
                    lang,
                    "--sysfs cannot name the user of its namespace ({error}): {}",
                    "--sysfs 不能设置其命名空间的用户（{error}）：{}",
                    remedy()
                )
            }
            Self::Mount(path, error) => {
                let (path, error) = (path.display(), error.in_words(lang));
                both!(
                    lang,
                    "--sysfs cannot mount over {path} ({error}): {}",
                    "--sysfs 不能在 {path} 上挂载（{error}）：{}",
                    remedy()
                )
            }
            Self::Write(error) => {
                let error = error.in_words(lang);
                both!(lang, "--sysfs cannot write its files: {error}", "--sysfs 不能写它的文件：{error}")
            }
        }
    }
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.in_words(Lang::En))
    }
}

/// Gives the calling process, which must have one thread, a view of the file system in which sysfs has our devices, and
/// `/dev/infiniband` their files. It stays with the program that the process becomes, and with that program's children.
///
/// Root needs a mount namespace only. Others get a user namespace besides, in which they are who they were: the memory of
/// processes outside, and in other such views, is then out of reach (ptrace(2)), so that packets go there by UDP.
///
/// # Errors
/// See [`Obstacle`]. The process may have its namespaces already, and should end.
pub fn enter() -> Result<(), Obstacle> {
    let devices = devices::discover().map_err(Obstacle::NoDevices)?;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // A user who is root in a container may be without the right.
    if uid != 0 || sys::unshare(false).is_err() {
        sys::unshare(true).map_err(Obstacle::Namespace)?;
        // Groups that cannot be dropped are the condition for naming one (user_namespaces(7)).
        fs::write("/proc/self/setgroups", "deny").map_err(Obstacle::User)?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")).map_err(Obstacle::User)?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")).map_err(Obstacle::User)?;
    }
    // Nothing of what follows is to be seen outside.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(|error| Obstacle::Mount("/".into(), error.into()))?;
    cover(Path::new(CLASSES), &OURS)?;
    for device in &devices {
        write(Path::new(CLASSES), device).map_err(Obstacle::Write)?;
    }
    let folder = Path::new(FILES).join("infiniband");
    if folder.exists() {
        blank(&folder)?;
    } else {
        cover(Path::new(FILES), &[])?;
        fs::create_dir(&folder).map_err(Obstacle::Write)?;
    }
    for device in &devices {
        let file = folder.join(format!("uverbs{}", device.index));
        File::create(&file).map_err(Obstacle::Write)?;
        bind(Path::new("/dev/null"), &file)?;
    }
    Ok(())
}

/// An empty folder over another.
fn blank(folder: &Path) -> Result<(), Obstacle> {
    mount("glassnic", folder, "tmpfs", MountFlags::NOSUID, Some(c"mode=755"))
        .map_err(|error| Obstacle::Mount(folder.into(), error.into()))
}

fn bind(what: &Path, at: &Path) -> Result<(), Obstacle> {
    mount_bind_recursive(what, at).map_err(|error| Obstacle::Mount(at.into(), error.into()))
}

/// A folder over another, with all that was in it but `without`.
fn cover(folder: &Path, without: &[&str]) -> Result<(), Obstacle> {
    let fault = |error| Obstacle::Mount(folder.into(), error);
    let before = File::open(folder).map_err(fault)?;
    let entries: Vec<_> = fs::read_dir(folder).map_err(fault)?.flatten().collect();
    blank(folder)?;
    // The way to what is covered now.
    let before = PathBuf::from(format!("/proc/self/fd/{}", before.as_raw_fd()));
    let wanted = |entry: &&fs::DirEntry| !without.iter().any(|name| entry.file_name() == *name);
    for entry in entries.iter().filter(wanted) {
        let (was, at) = (before.join(entry.file_name()), folder.join(entry.file_name()));
        let kind = fs::symlink_metadata(&was).map(|metadata| metadata.file_type());
        // Files of /dev come and go.
        let Ok(kind) = kind else { continue };
        if kind.is_symlink() {
            let target = fs::read_link(&was).map_err(fault)?;
            symlink(target, &at).map_err(fault)?;
            continue;
        }
        if kind.is_dir() {
            fs::create_dir(&at).map_err(fault)?;
        } else {
            File::create(&at).map_err(fault)?;
        }
        match bind(&was, &at) {
            // A device of which only its name was left.
            Err(_) if kind.is_block_device() || kind.is_char_device() => drop(fs::remove_file(&at)),
            other => other?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_obstacle_says_what_to_do_in_both_languages() {
        let error = || io::Error::from_raw_os_error(libc::EPERM);
        for obstacle in [
            Obstacle::Namespace(error()),
            Obstacle::User(error()),
            Obstacle::Mount("/sys/class".into(), error()),
        ] {
            let (english, chinese) = (obstacle.in_words(Lang::En), obstacle.in_words(Lang::Zh));
            assert!(english.contains("without --sysfs") && english.contains("root"), "{english}");
            assert!(chinese.contains("不用 --sysfs") && chinese.contains("root"), "{chinese}");
        }
        assert!(Obstacle::Write(error()).to_string().contains("cannot write"));
    }
}

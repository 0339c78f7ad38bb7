//! Where the libraries lie that programs shall load instead of the system's.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use glassnic_explain::both;
use glassnic_verbs::Words;

use crate::{fault, lang, out};

/// The library that programs ask the loader for (`readelf -d`, `NEEDED`).
const IBVERBS: &str = "libibverbs.so.1";

/// Name as cargo builds it, name as the loader wants it.
const LIBRARIES: [(&str, &str); 2] = [("libibverbs.so", IBVERBS), ("librdmacm.so", "librdmacm.so.1")];

/// The folder with `libibverbs.so.1`: what `GLASSNIC_LIBDIR` names, or `../lib/glassnic` beside this
/// executable, or a folder of links in the cargo target folder that this executable was built into.
///
/// # Errors
/// One line that says where it was looked for.
pub(crate) fn find() -> Result<PathBuf, String> {
    if let Some(dir) = std::env::var_os("GLASSNIC_LIBDIR") {
        let dir = PathBuf::from(dir);
        return if holds_library(&dir) {
            std::path::absolute(&dir).map_err(|error| fault("GLASSNIC_LIBDIR", &error))
        } else {
            Err(both!(
                lang(),
                "GLASSNIC_LIBDIR is {}, which has no {IBVERBS}",
                "GLASSNIC_LIBDIR 为 {}，其中没有 {IBVERBS}",
                dir.display()
            ))
        };
    }
    let executable = std::env::current_exe()
        .map_err(|error| fault(lang().pick("cannot find myself", "找不到自身"), &error))?;
    let bin = executable
        .parent()
        .ok_or_else(|| lang().pick("cannot find my own folder", "找不到自身所在的文件夹"))?;
    let installed = bin.with_file_name("lib").join("glassnic");
    if holds_library(&installed) {
        return Ok(installed);
    }
    if bin.join("libibverbs.so").exists() {
        return stage(bin);
    }
    Err(both!(
        lang(),
        "no {IBVERBS} in {} or {}; install with cargo xtask install, or set GLASSNIC_LIBDIR",
        "{} 和 {} 中都没有 {IBVERBS}；用 cargo xtask install 安装，或设置 GLASSNIC_LIBDIR",
        installed.display(),
        bin.display()
    ))
}

/// Prints that folder.
///
/// # Errors
/// As [`find`].
pub(crate) fn print() -> Result<(), String> {
    out::print(&format!("{}\n", find()?.display())).map(drop)
}

fn holds_library(dir: &Path) -> bool {
    dir.join(IBVERBS).exists()
}

/// Cargo cannot name a library `….so.1`: links of that name, in a folder of their own, so that
/// nothing else that searches the target folder finds them.
fn stage(built: &Path) -> Result<PathBuf, String> {
    let dir = built.join("glassnic-lib");
    let missing = LIBRARIES
        .iter()
        .filter(|(file, name)| built.join(file).exists() && dir.join(name).symlink_metadata().is_err());
    for (file, name) in missing {
        let made =
            fs::create_dir_all(&dir).and_then(|()| symlink(Path::new("..").join(file), dir.join(name)));
        // Another process may have made the link in the meantime.
        if let Err(error) = made.or_else(|error| match error.kind() {
            ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        }) {
            let error = error.in_words(lang());
            return Err(both!(
                lang(),
                "cannot make links in {}: {error}; run `{} libdir` once as the user who built it",
                "不能在 {} 中建立链接：{error}；请以构建它的用户运行一次 `{} libdir`",
                dir.display(),
                built.join("glassnic").display()
            ));
        }
    }
    Ok(dir)
}

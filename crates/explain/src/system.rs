//! What the operating system says.

use std::io::{self, ErrorKind};

use crate::Lang;

/// An error of a system call, as people read it. In English the C library says it.
#[must_use]
pub fn system_error_in(lang: Lang, error: &io::Error) -> String {
    match (lang, error.raw_os_error(), chinese(error.kind())) {
        (Lang::Zh, Some(number), Some(words)) => format!("{words}（errno {number}）"),
        (Lang::Zh, Some(number), None) => {
            let text = error.to_string();
            let words = text.strip_suffix(&format!(" (os error {number})")).unwrap_or(&text);
            format!("系统调用失败：{words}（errno {number}）")
        }
        (Lang::Zh, None, Some(words)) if error.get_ref().is_none() => words.to_owned(),
        _ => error.to_string(),
    }
}

fn chinese(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::NotFound => "没有这个文件或目录",
        ErrorKind::PermissionDenied => "没有权限",
        ErrorKind::AlreadyExists => "已经存在",
        ErrorKind::IsADirectory => "它是一个目录",
        ErrorKind::NotADirectory => "路径中有一段不是目录",
        ErrorKind::StorageFull => "设备上没有剩余空间",
        ErrorKind::QuotaExceeded => "超出磁盘配额",
        ErrorKind::ReadOnlyFilesystem => "文件系统是只读的",
        ErrorKind::FileTooLarge => "文件太大",
        ErrorKind::ExecutableFileBusy => "程序文件正在使用",
        ErrorKind::ArgumentListTooLong => "参数列表太长",
        ErrorKind::OutOfMemory => "内存不足",
        ErrorKind::AddrInUse => "地址已被占用",
        ErrorKind::AddrNotAvailable => "本机没有这个地址",
        ErrorKind::BrokenPipe => "管道的另一端已关闭",
        ErrorKind::InvalidInput => "参数无效",
        ErrorKind::InvalidData => "不是有效的 UTF-8 文本",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_error_has_its_number_in_both_languages() {
        let missing = io::Error::from_raw_os_error(2);
        assert_eq!(system_error_in(Lang::En, &missing), "No such file or directory (os error 2)");
        assert_eq!(system_error_in(Lang::Zh, &missing), "没有这个文件或目录（errno 2）");
        // One that has no words of its own.
        let other = system_error_in(Lang::Zh, &io::Error::from_raw_os_error(71));
        assert_eq!(other, "系统调用失败：Protocol error（errno 71）");
        assert_eq!(system_error_in(Lang::Zh, &io::Error::other("自己的话")), "自己的话");
    }
}

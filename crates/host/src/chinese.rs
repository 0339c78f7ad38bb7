//! What the errors around a device say, in Chinese. In English they say it themselves.

use std::io;

use glassnic_explain::{Lang, system_error_in};
use glassnic_link::cma::Obstacle;
use glassnic_link::directory::{DirectoryError, FolderFault};
use glassnic_link::iface::SelectError;
use glassnic_link::udp::BindError;

use crate::problem::Problem;
use crate::profile::{self, ProfileError};

pub(crate) fn problem(problem: &Problem) -> String {
    match problem {
        Problem::Interfaces(error) => format!("不能读取网络接口：{}", system(error)),
        Problem::Devices(error) => format!("GLASSNIC_DEVICES：{}", select(error)),
        Problem::Profile(error) => profile(error),
        Problem::SharedMemory(error) => format!("没有共享内存：{}", directory(error)),
        Problem::Inbox(error) => format!("共享内存中没有收件环：{}", system(error)),
        Problem::SingleCopy(obstacle) => format!("不能单次复制：{}", single_copy(obstacle)),
        Problem::Roce(error) => format!("没有 RoCEv2：{}", bind(error)),
        Problem::Link(given) => format!("不认识 GLASSNIC_LINK={given}；请用 udp 或 shm"),
    }
}

fn system(error: &io::Error) -> String {
    system_error_in(Lang::Zh, error)
}

fn select(error: &SelectError) -> String {
    match error {
        SelectError::Duplicate(name) => format!("设备 {name} 出现了两次"),
        SelectError::Empty => "设备列表是空的；应形如 glass0=eth0,glass1=lo".into(),
        SelectError::Name(name) => format!("{name:?} 不能作为设备名"),
        SelectError::Syntax(entry) => format!("{entry:?} 不是“设备=接口”的形式"),
    }
}

pub(crate) fn directory(error: &DirectoryError) -> String {
    match error {
        DirectoryError::BlocksExhausted => "本机的 QP 号已全部分配".into(),
        DirectoryError::Forked => "这个目录项属于父进程".into(),
        DirectoryError::Folder { path, reason } => {
            let why = match reason {
                FolderFault::NotMade(error) => format!("不能创建：{}", system(error)),
                FolderFault::NotOpened(error) => format!("不能打开：{}", system(error)),
                FolderFault::OfAnother(user) => format!("属于用户 {user}"),
                FolderFault::OpenToOthers(mode) => {
                    format!("其他用户也能访问（权限为 {mode:o}，应为 700）")
                }
                FolderFault::NoCandidate => "没有可选的文件夹".into(),
            };
            format!("没有可用的目录文件夹：{}：{why}", path.display())
        }
        DirectoryError::Io(error) => format!("进程目录：{}", system(error)),
        DirectoryError::Locked => "进程目录已被另一个进程锁住 5 秒".into(),
        DirectoryError::ProcessesExhausted => "该用户在本机上已有 256 个进程".into(),
    }
}

fn single_copy(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::Refused(error) => format!(
            "这里不允许 process_vm_readv（{}），因此长消息不能在进程之间传送；请在 seccomp 过滤器中允许它（Docker：\
             --cap-add=SYS_PTRACE），或设置 GLASSNIC_LINK=udp",
            system(error)
        ),
        Obstacle::Yama(scope) => format!(
            "kernel.yama.ptrace_scope={scope} 不让进程访问彼此的内存，因此长消息不能在它们之间传送；请把它设为 1 或 0\
             （sysctl），或设置 GLASSNIC_LINK=udp"
        ),
    }
}

fn bind(error: &BindError) -> String {
    match error {
        BindError::Directory(error) => directory(error),
        BindError::Io(error) => format!("UDP 套接字：{}", system(error)),
        BindError::PortTaken { port } => format!(
            "UDP 端口 {port} 被另一用户的进程或内核（rdma_rxe）占用：其他主机不可达；请结束那个进程（ss -lunp 给出它），\
             或卸载 rdma_rxe"
        ),
    }
}

pub(crate) fn profile(error: &ProfileError) -> String {
    match error {
        ProfileError::Variable(error) => format!("{}：{}", profile::VARIABLE, profile(error)),
        ProfileError::Unknown { name } => {
            format!("没有名为 {name} 的配置；请用 {}，或给出文件的路径", profile::names("、"))
        }
        ProfileError::NotRead { path, error } => format!("不能读取 {path}：{}", system(error)),
        ProfileError::Syntax { name, line, message } => format!("{name} 第 {line} 行：{}", toml(message)),
        ProfileError::Limit { name, error } => {
            let glassnic_nic::limits::BadLimit { field, offered, min, max } = error;
            format!("{name}：不能为 {field}={offered}；请用 {min} 到 {max}")
        }
    }
}

/// What serde says of a value, by its form; what a parser says of the text stays as it is.
fn toml(message: &str) -> String {
    let parts = |before: &str, between: &str| message.strip_prefix(before)?.split_once(between);
    if let Some((field, known)) = parts("unknown field ", ", expected one of ") {
        return format!("没有字段 {field}；可用的字段：{}", known.replace(", ", "、"));
    }
    let given = parts("invalid type: ", ", expected ").or_else(|| parts("invalid value: ", ", expected "));
    match given {
        Some((given, expected)) => format!("给出的是 {given}，需要的是 {expected}"),
        None => format!("不是有效的 TOML：{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Words;

    fn system_error() -> io::Error {
        io::Error::from_raw_os_error(28)
    }

    fn all() -> Vec<Problem> {
        let folder = |reason| DirectoryError::Folder { path: "/some/where".into(), reason };
        let profile = |name| profile::load(name).unwrap_err();
        vec![
            Problem::Interfaces(system_error()),
            Problem::Devices(SelectError::Duplicate("glass0".into())),
            Problem::Devices(SelectError::Empty),
            Problem::Devices(SelectError::Name("a b".into())),
            Problem::Devices(SelectError::Syntax("glass0".into())),
            Problem::Profile(ProfileError::Variable(profile("irmda").into())),
            Problem::Profile(profile("no/such.toml")),
            Problem::SharedMemory(DirectoryError::BlocksExhausted),
            Problem::SharedMemory(DirectoryError::Forked),
            Problem::SharedMemory(DirectoryError::Io(system_error())),
            Problem::SharedMemory(DirectoryError::Locked),
            Problem::SharedMemory(DirectoryError::ProcessesExhausted),
            Problem::SharedMemory(folder(FolderFault::NotMade(system_error()))),
            Problem::SharedMemory(folder(FolderFault::NotOpened(system_error()))),
            Problem::SharedMemory(folder(FolderFault::OfAnother(7))),
            Problem::SharedMemory(folder(FolderFault::OpenToOthers(0o755))),
            Problem::SharedMemory(folder(FolderFault::NoCandidate)),
            Problem::Inbox(system_error()),
            Problem::SingleCopy(Obstacle::Refused(system_error())),
            Problem::SingleCopy(Obstacle::Yama(3)),
            Problem::Roce(BindError::Directory(DirectoryError::Locked)),
            Problem::Roce(BindError::Io(system_error())),
            Problem::Roce(BindError::PortTaken { port: 4791 }),
            Problem::Link("tcp".into()),
        ]
    }

    #[test]
    fn every_problem_is_said_in_both_languages() {
        let said = |lang| {
            let lines: Vec<String> = all().iter().map(|problem| problem.in_words(lang)).collect();
            lines.join("\n")
        };
        insta::assert_snapshot!(said(Lang::En));
        insta::assert_snapshot!(said(Lang::Zh));
    }

    #[test]
    fn what_is_wrong_in_a_file_is_said_by_its_line() {
        let said = |text: &str| profile::parse("mine", text).unwrap_err().in_words(Lang::Zh);
        let unknown = said("max_qp = 4\nmax_pq = 4\n");
        assert!(unknown.starts_with("mine 第 2 行：没有字段 `max_pq`；可用的字段：`"), "{unknown}");
        assert!(!unknown.contains(", "), "{unknown}");
        assert_eq!(said("max_sge = 33"), "mine：不能为 max_sge=33；请用 1 到 32");
        assert!(said("max_sge = 'x'").starts_with("mine 第 1 行：给出的是 string \"x\"，需要的是 "));
        assert!(said("max_sge = ").starts_with("mine 第 1 行：不是有效的 TOML："));
    }
}

//! `glassnic profiles`: which devices GlassNIC can pass for, and the files that say so.

use glassnic_explain::{Lang, both};
use glassnic_verbs::Words;
use glassnic_verbs::profile::{self, BUILT_IN};

use crate::{lang, out};

/// Lists the profiles, or prints the file of one.
///
/// # Errors
/// No such profile.
pub(crate) fn profiles(name: Option<&str>) -> Result<(), String> {
    let Some(name) = name else {
        let lines = BUILT_IN.iter().map(|(name, text)| format!("{name:8} {}\n", said(lang(), name, text)));
        return out::print(&lines.collect::<String>()).map(drop);
    };
    let text = match BUILT_IN.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => (*text).to_owned(),
        None => {
            // Says why there is none, or what is wrong with the user's own.
            profile::load(name).map_err(|error| error.in_words(lang()))?;
            let variable = profile::VARIABLE;
            both!(
                lang(),
                "{name} is a profile; use it with {variable}={name}\n",
                "{name} 是一个配置；用 {variable}={name} 使用它\n"
            )
        }
    };
    out::print(&text).map(drop)
}

/// What a profile is, in a sentence: in English its file says it.
fn said(lang: Lang, name: &str, text: &str) -> String {
    let chinese = match name {
        "default" => "GlassNIC 自身：所有上限都取最大，没有会绊倒程序的脾气",
        "lagging" => "默认设备，但迟写 QP 上下文：修改之后过早查询会看到旧状态",
        "mlx5" => "模仿 NVIDIA ConnectX：上限宽松，内联大小向上取整而 UD 较小，16 个读和原子操作",
        "irdma" => {
            "模仿 RoCEv2 模式的 Intel E810：内联数据少，13 个 SGE，没有原子操作和 UC，并拒绝 RESET 到 RESET"
        }
        "bnxt" => "模仿 Broadcom NetXtreme-E：6 个 SGE，96 字节内联，没有 UC",
        "efa" => "模仿 verbs 所见的 Elastic Fabric Adapter：只有数据报，2 个 SGE，32 字节内联",
        "rxe" => "模仿 Linux 的 soft-RoCE：512 字节内联，MTU 为 1024",
        _ => "",
    };
    match lang {
        Lang::Zh if !chinese.is_empty() => chinese.to_owned(),
        _ => summary(text),
    }
}

/// The first sentence of the comment at the top.
fn summary(text: &str) -> String {
    let comment = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    let words = comment.collect::<Vec<_>>().join(" ");
    words.split_once(". ").map_or(words.clone(), |(first, _)| first.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_says_what_it_is() {
        for (name, text) in BUILT_IN {
            let said = summary(text);
            assert!(said.len() > 20 && !said.contains('#'), "{name}: {said}");
            assert!(!super::said(Lang::Zh, name, text).is_ascii(), "{name}");
        }
    }
}

//! `glassnic profiles`: which devices GlassNIC can pass for, and the files that say so.

use glassnic_verbs::profile::{self, BUILT_IN};

/// Lists the profiles, or prints the file of one.
///
/// # Errors
/// No such profile.
pub(crate) fn profiles(name: Option<&str>) -> Result<(), String> {
    let Some(name) = name else {
        for (name, text) in BUILT_IN {
            println!("{name:8} {}", summary(text));
        }
        return Ok(());
    };
    match BUILT_IN.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => print!("{text}"),
        None => {
            // Says why there is none, or what is wrong with the user's own.
            profile::load(name)?;
            println!("{name} is a profile; use it with {}={name}", profile::VARIABLE);
        }
    }
    Ok(())
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
        }
    }
}

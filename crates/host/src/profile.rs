//! Profiles: what kind of device the NICs of this process are. See [`Limits`] for their fields.

use glassnic_nic::limits::Limits;

/// The variable that names one.
pub const VARIABLE: &str = "GLASSNIC_PROFILE";

macro_rules! built_in {
    ($($name:literal),+) => {
        /// The profiles that come along: names, and the files that a user may copy and change.
        pub const BUILT_IN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../profiles/", $name, ".toml")))),+];
    };
}

built_in!("default", "lagging", "mlx5", "irdma", "bnxt", "efa", "rxe");

/// The profile of this name, or in the file of this path where there is a slash or a `.toml` in it.
///
/// # Errors
/// In a line: no such profile or file, or what is wrong with it.
pub fn load(name: &str) -> Result<Limits, String> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        return parse(name, text);
    }
    if !name.contains('/') && !name.ends_with(".toml") {
        let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        return Err(format!("{name} is no profile; use {}, or the path of a file", names.join(", ")));
    }
    let text = std::fs::read_to_string(name).map_err(|e| format!("cannot read {name}: {e}"))?;
    parse(name, &text)
}

/// The profile that the environment asks for.
///
/// # Errors
/// As [`load`].
pub fn from_env() -> Result<Limits, String> {
    match std::env::var(VARIABLE) {
        Ok(name) if !name.is_empty() => load(&name).map_err(|why| format!("{VARIABLE}: {why}")),
        _ => Ok(Limits::default()),
    }
}

fn parse(name: &str, text: &str) -> Result<Limits, String> {
    let limits: Limits = toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        format!("{name} line {line}: {}", e.message())
    })?;
    limits.check().map_err(|e| format!("{name}: {e}"))?;
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_that_comes_along_is_one() {
        for (name, _) in BUILT_IN {
            load(name).unwrap();
        }
        assert_eq!(load("default").unwrap(), Limits::default());
        assert_eq!(load("lagging").unwrap(), Limits { write_back_ns: 10_000, ..Limits::default() });
    }

    #[test]
    fn what_is_wrong_is_said_in_a_line() {
        assert!(load("nonsense").unwrap_err().starts_with("nonsense is no profile; use default, lagging"));
        assert!(load("no/such.toml").unwrap_err().starts_with("cannot read no/such.toml: "));
        let unknown = parse("mine", "max_qp = 4\nmax_pq = 4\n").unwrap_err();
        assert!(unknown.starts_with("mine line 2: unknown field `max_pq`"), "{unknown}");
        assert_eq!(
            parse("mine", "max_sge = 33").unwrap_err(),
            "mine: max_sge=33 is not possible; use 1 to 32"
        );
    }
}

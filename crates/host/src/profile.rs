//! Profiles: what kind of device the NICs of this process are. See [`Limits`] for their fields.

use std::io;

use glassnic_nic::limits::{BadLimit, Limits};

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

/// Why there is no such profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// What the environment asks for is none.
    #[error("{VARIABLE}: {0}")]
    Variable(Box<Self>),
    /// None has this name.
    #[error("{name} is no profile; use {}, or the path of a file", names(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    NotRead {
        /// Its path.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The file is no TOML, or has other fields or values.
    #[error("{name} line {line}: {message}")]
    Syntax {
        /// The profile.
        name: String,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong in it, as the parser says it.
        message: String,
    },
    /// No device can be like this.
    #[error("{name}: {error}")]
    Limit {
        /// The profile.
        name: String,
        /// The field.
        error: BadLimit,
    },
}

/// The names of all that come along.
pub(crate) fn names(between: &str) -> String {
    let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    names.join(between)
}

/// The profile of this name, or in the file of this path where there is a slash or a `.toml` in it.
///
/// # Errors
/// No such profile or file, or what is wrong with it.
pub fn load(name: &str) -> Result<Limits, ProfileError> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        return parse(name, text);
    }
    if !name.contains('/') && !name.ends_with(".toml") {
        return Err(ProfileError::Unknown { name: name.to_owned() });
    }
    let text = std::fs::read_to_string(name);
    let text = text.map_err(|error| ProfileError::NotRead { path: name.to_owned(), error })?;
    parse(name, &text)
}

/// The profile that the environment asks for.
///
/// # Errors
/// As [`load`].
pub fn from_env() -> Result<Limits, ProfileError> {
    match std::env::var(VARIABLE) {
        Ok(name) if !name.is_empty() => load(&name).map_err(|why| ProfileError::Variable(why.into())),
        _ => Ok(Limits::default()),
    }
}

pub(crate) fn parse(name: &str, text: &str) -> Result<Limits, ProfileError> {
    let limits: Limits = toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        ProfileError::Syntax { name: name.to_owned(), line, message: e.message().to_owned() }
    })?;
    limits.check().map_err(|error| ProfileError::Limit { name: name.to_owned(), error })?;
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
        assert!(
            load("nonsense")
                .unwrap_err()
                .to_string()
                .starts_with("nonsense is no profile; use default, lagging")
        );
        assert!(load("no/such.toml").unwrap_err().to_string().starts_with("cannot read no/such.toml: "));
        let unknown = parse("mine", "max_qp = 4\nmax_pq = 4\n").unwrap_err().to_string();
        assert!(unknown.starts_with("mine line 2: unknown field `max_pq`"), "{unknown}");
        assert_eq!(
            parse("mine", "max_sge = 33").unwrap_err().to_string(),
            "mine: max_sge=33 is not possible; use 1 to 32"
        );
    }
}

//! Standard output and standard error, whose readers may go away at any time.

use std::io::{self, ErrorKind, Write};

use crate::{fault, lang};

/// Whether somebody still reads standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    Reads,
    /// It has seen enough, as head(1) or a pager that was closed: no error, and nothing is to be printed any more.
    Gone,
}

/// Prints to standard output.
///
/// # Errors
/// In a line, why it could not be written; that nobody reads is none.
pub(crate) fn print(text: &str) -> Result<Reader, String> {
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What became of writing to standard output.
///
/// # Errors
/// As [`print()`].
pub(crate) fn written(result: io::Result<()>) -> Result<Reader, String> {
    match result {
        Ok(()) => Ok(Reader::Reads),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(fault(lang().pick("standard output", "标准输出"), &error)),
    }
}

/// Says something in a line of standard error. If nobody reads that, there is nobody left to be told.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "glassnic: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_went_away_is_no_error_and_a_full_disk_is_one() {
        assert_eq!(written(Ok(())), Ok(Reader::Reads));
        assert_eq!(written(Err(ErrorKind::BrokenPipe.into())), Ok(Reader::Gone));
        assert!(written(Err(ErrorKind::StorageFull.into())).unwrap_err().contains(": "));
    }
}

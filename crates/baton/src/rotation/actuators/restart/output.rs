//! The output of a headless agent over several contexts: one result, as if there had been one.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use crate::sys::child::Child;
use crate::sys::poll;

pub(super) enum Output {
    /// On the terminal, or with nothing to merge.
    Inherited,
    /// `text` and `json`: only the last context's result is the answer.
    Last(Vec<u8>),
    /// `stream-json`: everything is passed on, except results before the last one.
    Stream { partial: Vec<u8>, result: Option<Vec<u8>> },
}

impl Output {
    pub(super) fn new(headless: bool, format: &str) -> Self {
        match (headless, format) {
            (false, _) => Self::Inherited,
            (true, "stream-json") => Self::Stream { partial: Vec::new(), result: None },
            (true, _) => Self::Last(Vec::new()),
        }
    }

    pub(super) fn captures(&self) -> bool {
        !matches!(self, Self::Inherited)
    }

    /// Reads the available bytes; drops the pipe at its end.
    pub(super) fn pump(&mut self, child: &mut Child) -> anyhow::Result<()> {
        let Some(fd) = child.stdout.take() else { return Ok(()) };
        let mut file = std::fs::File::from(fd);
        let mut buffer = vec![0; 64 << 10];
        let n = file.read(&mut buffer)?;
        if n > 0 {
            self.take(&buffer[..n])?;
            child.stdout = Some(file.into());
        }
        Ok(())
    }

    /// Reads the rest of the output after the client has ended. Processes that it left running may hold the pipe open
    /// forever, so do not wait for the pipe's end.
    pub(super) fn finish_reading(&mut self, child: &mut Child) {
        while let Some(fd) = &child.stdout {
            let ready = poll::readable(fd, Duration::ZERO);
            if !ready.unwrap_or(false) || self.pump(child).is_err() {
                return;
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Inherited => {}
            Self::Last(held) => held.extend_from_slice(bytes),
            Self::Stream { partial, result } => {
                partial.extend_from_slice(bytes);
                while let Some(end) = memchr::memchr(b'\n', partial) {
                    let line: Vec<u8> = partial.drain(..=end).collect();
                    if is_result(&line) {
                        *result = Some(line);
                    } else {
                        let mut out = std::io::stdout().lock();
                        out.write_all(&line)?;
                        out.flush()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Drops the last context's result, which was not the answer, because another context follows.
    pub(super) fn next_context(&mut self) {
        match self {
            Self::Inherited => {}
            Self::Last(held) => held.clear(),
            Self::Stream { result, .. } => *result = None,
        }
    }

    /// Prints the final answer.
    pub(super) fn print_result(&mut self) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        match self {
            Self::Inherited => {}
            Self::Last(held) => out.write_all(held)?,
            Self::Stream { partial, result } => {
                if let Some(result) = result {
                    out.write_all(result)?;
                }
                out.write_all(partial)?;
            }
        }
        out.flush()?;
        Ok(())
    }
}

/// A record of type `result`: the end of a run in the client's stream.
fn is_result(line: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Record<'a> {
        #[serde(rename = "type", borrow)]
        kind: std::borrow::Cow<'a, str>,
    }
    serde_json::from_slice::<Record<'_>>(line).is_ok_and(|r| r.kind == "result")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_record_of_that_type_is_a_result() {
        assert!(is_result(b"{\"type\":\"result\",\"result\":\"x\"}\n"));
        assert!(!is_result(b"{\"type\":\"assistant\",\"message\":\"type result\"}\n"));
        assert!(!is_result(b"result\n"));
    }
}

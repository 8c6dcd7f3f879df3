//! Who reads a view. What may be a secret is left out of a view that is shared.

use crate::redact;
use model::sweep::RealStop;
use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The user whose run it is: everything, as in the terminal.
    Owner,
    /// Anybody. Values of headers, bodies and URLs are left out.
    Anybody,
}

impl Audience {
    /// Why a reply is wrong.
    pub(super) fn reason<'a>(self, text: &'a str) -> Cow<'a, str> {
        self.of(text, redact::reason)
    }

    pub(super) fn command<'a>(self, line: &'a str) -> Cow<'a, str> {
        self.of(line, redact::command)
    }

    pub(super) fn request<'a>(self, text: &'a str) -> Cow<'a, str> {
        self.of(text, redact::request)
    }

    pub(super) fn oracle<'a>(self, text: &'a str) -> Cow<'a, str> {
        self.of(text, redact::oracle)
    }

    pub(super) fn real_stop(self, real: &RealStop) -> String {
        match self {
            Audience::Owner => real.describe(),
            Audience::Anybody => crate::bugs::real_stop(real),
        }
    }

    fn of<'a>(self, text: &'a str, redacted: fn(&str) -> String) -> Cow<'a, str> {
        match self {
            Audience::Owner => Cow::Borrowed(text),
            Audience::Anybody => Cow::Owned(redacted(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_sees_values() {
        let line = "faultloom record http://h/ -H 'Authorization: secret'";
        assert_eq!(Audience::Owner.command(line), line);
        assert!(!Audience::Anybody.command(line).contains("secret"));
    }
}

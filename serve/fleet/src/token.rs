//! The secret of a client. Created at the first start; readable only by its owner.

use crate::identity::{random, write_private};
use model::Failure;
use sha2::{Digest, Sha256};
use std::path::Path;

#[derive(Clone)]
pub struct Token(String);

/// Shorter tokens could be guessed.
const LENGTH_MIN: usize = 32;
const LENGTH_MAX: usize = 256;

impl Token {
    /// Reads the token from a file, and creates it if necessary.
    pub fn load_or_create(file: &Path) -> Result<Token, Failure> {
        if !file.exists() {
            let hex: String = random::<32>()?.iter().map(|byte| format!("{byte:02x}")).collect();
            write_private(file, format!("{hex}\n").as_bytes())?;
        }
        Token::load(file)
    }

    pub fn load(file: &Path) -> Result<Token, Failure> {
        let text = std::fs::read_to_string(file)
            .map_err(|e| Failure::environment(format!("cannot read the token in {}: {e}", file.display())))?;
        Token::parse(text.trim())
            .map_err(|why| Failure::environment(format!("{} contains no valid token", file.display())).why(why))
    }

    pub fn parse(text: &str) -> Result<Token, String> {
        let fits = (LENGTH_MIN..=LENGTH_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if fits {
            Ok(Token(text.to_owned()))
        } else {
            Err(format!("a token has {LENGTH_MIN} to {LENGTH_MAX} characters without spaces"))
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Compares digests, so that the duration reveals nothing about the token.
    pub(crate) fn matches(&self, shown: &str) -> bool {
        Sha256::digest(&self.0) == Sha256::digest(shown)
    }
}

/// Never printed.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

//! The one-time token of the address, and the secrets of the sessions that were opened with one.

use model::Failure;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// One more session ends the oldest one.
const SESSIONS_MAX: usize = 32;

/// 32 random bytes in hexadecimal digits.
fn random() -> Result<String, Failure> {
    let mut bytes = [0_u8; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|e| Failure::environment(format!("cannot read /dev/urandom, so no secret can be made: {e}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Only digests are kept and compared, so that neither timing nor a memory dump of this process reveals a secret.
type SecretDigest = [u8; 32];

fn digest_of(secret: &str) -> SecretDigest {
    Sha256::digest(secret).into()
}

pub(crate) struct Secrets {
    state: Mutex<State>,
}

struct State {
    token: SecretDigest,
    /// Oldest first.
    sessions: Vec<SecretDigest>,
}

impl Secrets {
    /// Returns the first token.
    pub fn create() -> Result<(Secrets, String), Failure> {
        let token = random()?;
        let state = State { token: digest_of(&token), sessions: Vec::new() };
        Ok((Secrets { state: Mutex::new(state) }, token))
    }

    /// Exchanges the token for the secret of a new session, and also returns the next token, since this one is used up.
    /// None: it is not the current token.
    pub fn open_session(&self, token: &str) -> Result<Option<(String, String)>, Failure> {
        let (session, next) = (random()?, random()?);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.token != digest_of(token) {
            return Ok(None);
        }
        state.token = digest_of(&next);
        if state.sessions.len() >= SESSIONS_MAX {
            state.sessions.remove(0);
        }
        state.sessions.push(digest_of(&session));
        Ok(Some((session, next)))
    }

    pub fn is_session(&self, secret: &str) -> bool {
        let shown = digest_of(secret);
        self.state.lock().unwrap_or_else(PoisonError::into_inner).sessions.contains(&shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_one_session() {
        let (secrets, token) = Secrets::create().unwrap();
        assert!(secrets.open_session("something else").unwrap().is_none());
        let (session, next) = secrets.open_session(&token).unwrap().unwrap();
        assert!(secrets.is_session(&session) && !secrets.is_session(&token) && !secrets.is_session(&next));
        assert!(secrets.open_session(&token).unwrap().is_none(), "it is used up");
        let (second, _) = secrets.open_session(&next).unwrap().unwrap();
        assert!(secrets.is_session(&session) && secrets.is_session(&second));
    }

    #[test]
    fn the_oldest_of_too_many_sessions_ends() {
        let (secrets, mut token) = Secrets::create().unwrap();
        let mut sessions = Vec::new();
        for _ in 0..=SESSIONS_MAX {
            let (session, next) = secrets.open_session(&token).unwrap().unwrap();
            sessions.push(session);
            token = next;
        }
        assert!(!secrets.is_session(&sessions[0]));
        assert!(sessions[1..].iter().all(|session| secrets.is_session(session)));
    }
}

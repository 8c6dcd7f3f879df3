//! What goes over the connection.

use flows::Slice;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Version of the question; another one is refused.
pub(crate) const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
pub(crate) struct Question {
    pub version: u32,
    pub token: String,
    pub from_ms: i64,
    pub to_ms: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    Slice(Slice),
    Refused(String),
}

pub(crate) async fn read<T: DeserializeOwned>(from: &mut (impl AsyncRead + Unpin), most: usize) -> Result<T, String> {
    let length = from.read_u32().await.map_err(|e| format!("nothing came: {e}"))? as usize;
    if length > most {
        return Err(format!("{length} bytes are announced, at most {most} are taken"));
    }
    // grows with what really comes, not with what is announced
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes).await.map_err(|e| format!("it ended early: {e}"))?;
    if bytes.len() < length {
        return Err("it ended early".to_owned());
    }
    serde_json::from_slice(&bytes).map_err(|e| format!("it is no frame of ours: {e}"))
}

pub(crate) fn bytes(value: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(value).map_err(|e| e.to_string())
}

pub(crate) async fn write(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| std::io::Error::other("more than 4 GiB"))?;
    to.write_u32(length).await?;
    to.write_all(bytes).await?;
    to.flush().await
}

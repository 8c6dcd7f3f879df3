//! Services that crash for real while a sweep runs: restarted, and every case that met the crash is run once more.
//!
//! Many cases are in flight when a service dies, and all of them meet it. One of them finds the crash and has it repaired; the others
//! wait for that and know it by the time at which they began. A restarted service counts as back when the plain request finds it:
//! its callers may hold dead connections for a while. A crash that comes again with the same faults, and not without them, is no accident:
//! the case fails.

use crate::judge::has_unplanned_failure;
use model::{Failure, Fault};
use requests::{Reply, RequestSpec, Sender};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// A process's connections break a moment before its parent can tell that it died: so often, after such pauses, we look.
const LOOKS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(5), Duration::from_millis(20)];
/// How long callers may take to find a restarted service again.
const SETTLING_MAX: Duration = Duration::from_secs(10);
const SETTLING_PAUSE: Duration = Duration::from_millis(20);

/// Whoever can tell that a service of the target crashed for real, and start it again.
pub trait Stage: Send + Sync {
    /// Restarts what crashed; the names of the services it restarted, empty if none had crashed.
    fn revive(&self) -> Pin<Box<dyn Future<Output = Result<Vec<String>, Failure>> + Send + '_>>;

    /// Whether it can ever tell.
    fn can_tell(&self) -> bool {
        true
    }
}

/// For targets that somebody else runs.
pub struct Attached;

impl Stage for Attached {
    fn revive(&self) -> Pin<Box<dyn Future<Output = Result<Vec<String>, Failure>> + Send + '_>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn can_tell(&self) -> bool {
        false
    }
}

/// A stage, and when it last had something to repair.
pub struct Watch {
    stage: Arc<dyn Stage>,
    repaired: Mutex<Option<Instant>>,
}

/// What came of a request.
pub struct Sent {
    pub reply: Reply,
    /// It met a crash and was sent again.
    pub repeated: bool,
    /// Services whose crash this request was the first to find.
    pub crashed: Vec<String>,
    /// Services that crashed with these faults both times and not without them: the faults bring them down.
    pub brought_down: Vec<String>,
}

impl Sent {
    fn once(reply: Reply) -> Sent {
        Sent { reply, repeated: false, crashed: Vec::new(), brought_down: Vec::new() }
    }
}

impl Watch {
    pub fn new(stage: Arc<dyn Stage>) -> Watch {
        Watch { stage, repaired: Mutex::new(None) }
    }

    /// Sends once; if a service of the target crashed for real meanwhile, it is restarted and the request repeated once.
    pub async fn send(&self, sender: &mut Sender, spec: &RequestSpec, faults: &[Fault]) -> Result<Sent, Failure> {
        let begin = Instant::now();
        let reply = sender.send(spec, faults).await?;
        if !has_unplanned_failure(&reply) || !self.stage.can_tell() {
            return Ok(Sent::once(reply));
        }
        for pause in LOOKS {
            tokio::time::sleep(pause).await;
            let mut repaired = self.repaired.lock().await;
            let met = repaired.is_some_and(|at| at > begin);
            let crashed = if met { Vec::new() } else { self.stage.revive().await? };
            if !crashed.is_empty() {
                settle(sender, spec).await?;
                *repaired = Some(Instant::now());
            }
            drop(repaired);
            if met || !crashed.is_empty() {
                return self.again(sender, spec, faults, crashed).await;
            }
        }
        Ok(Sent::once(reply))
    }

    /// The request once more, after a crash. A service that crashes again, and not when the plain request is sent, did not
    /// crash by itself. Only who found both crashes first knows that it was its request that met them.
    async fn again(
        &self,
        sender: &mut Sender,
        spec: &RequestSpec,
        faults: &[Fault],
        crashed: Vec<String>,
    ) -> Result<Sent, Failure> {
        let reply = sender.send(spec, faults).await?;
        let mut sent = Sent { reply, repeated: true, crashed, brought_down: Vec::new() };
        if faults.is_empty() || sent.crashed.is_empty() || !has_unplanned_failure(&sent.reply) {
            return Ok(sent);
        }
        for pause in LOOKS {
            tokio::time::sleep(pause).await;
            let mut repaired = self.repaired.lock().await;
            let second = self.stage.revive().await?;
            if second.is_empty() {
                continue;
            }
            settle(sender, spec).await?;
            *repaired = Some(Instant::now());
            // settling has sent the plain request: whoever is down now crashes without these faults as well
            let without = self.stage.revive().await?;
            let both = second.iter().filter(|name| sent.crashed.contains(name) && !without.contains(name));
            sent.brought_down = both.cloned().collect();
            sent.crashed.extend(second);
            break;
        }
        Ok(sent)
    }
}

/// Until the request without faults finds everybody again. If it does not in time, the case will say what it met.
async fn settle(sender: &mut Sender, spec: &RequestSpec) -> Result<(), Failure> {
    let begin = Instant::now();
    while has_unplanned_failure(&sender.send(spec, &[]).await?) && begin.elapsed() < SETTLING_MAX {
        tokio::time::sleep(SETTLING_PAUSE).await;
    }
    Ok(())
}

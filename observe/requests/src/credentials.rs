//! Keys that permit histories and faults in the target's environment.

use model::{Failure, Fault};
use wire::WireError;
use wire::call_id;
use wire::envelope::{Accept, Hop, Signed, assemble, counters};
use wire::trust::{Purpose, Trust};

/// Lifetime of an envelope: longer than any timeout of a request here, and far below the format's ten minutes.
const LIFETIME_SECONDS: u64 = 120;

#[derive(Clone, Debug)]
pub struct Credentials {
    trust: Trust,
}

/// The envelope of a request that is about to be sent, and the ids in it.
pub struct Start {
    pub envelope: Vec<u8>,
    pub trace_id: [u8; 16],
    pub call: u64,
}

impl Credentials {
    pub fn new(trust: Trust) -> Credentials {
        Credentials { trust }
    }

    pub fn parse(text: &str) -> Result<Credentials, Failure> {
        let trust = Trust::parse(text).map_err(|e| {
            Failure::environment(e.to_string()).next("`faultloom down`, then `faultloom up` generates new keys")
        })?;
        Ok(Credentials { trust })
    }

    /// A new envelope for one request, signed with the fault key if there are faults, else with the trace key. `run`:
    /// the run that it belongs to. `bridge`: it may also be sent in `baggage`.
    pub fn start(
        &self,
        run: Option<[u8; 16]>,
        bridge: bool,
        faults: &[Fault],
        accept: Accept,
        receive_limit: u64,
    ) -> Result<Start, Failure> {
        let purpose = if faults.is_empty() { Purpose::Trace } else { Purpose::Fault };
        let key = self.trust.key_for(purpose).or_else(|| self.trust.key_for(Purpose::Fault)).ok_or_else(|| {
            Failure::environment("the target's trust settings have no key for this request")
                .next("`faultloom up` generates a trace key and a fault key")
        })?;
        let trace_id = *uuid::Uuid::now_v7().as_bytes();
        let low = u64::from_be_bytes(trace_id[8..].try_into().expect("eight bytes"));
        let high = u64::from_be_bytes(trace_id[..8].try_into().expect("eight bytes"));
        let call = call_id::derive(low, high);
        let signed = Signed {
            trace_id,
            run,
            expires: now_s() + LIFETIME_SECONDS,
            key_id: key.id.clone(),
            environment: self.trust.environment.clone(),
            history: true,
            bridge,
            plan: (!faults.is_empty()).then(|| faults.to_vec()),
        };
        let evidence = vec![0; counters(faults)];
        let envelope = signed
            .sign(key)
            .and_then(|forwarded| assemble(&forwarded, &Hop { call, accept, receive_limit, evidence }))
            .map_err(|e| too_large(e, faults.len()))?;
        Ok(Start { envelope, trace_id, call })
    }
}

fn too_large(e: WireError, faults: usize) -> Failure {
    Failure::unknown(format!("this plan of {faults} faults cannot be sent: {e}")).next(
        "shorter names in selectors or fewer 'after' entries; without a slash, `Convert` matches /any.Service/Convert",
    )
}

fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

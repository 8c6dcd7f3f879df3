//! `interference URL TRUST-FILE PLANS SEED`: prints the measurement as JSON. The sweep's bench runs it beside its
//! spaces.

use explore::interference::measure;
use requests::{Credentials, RequestSpec};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, trust, plans, seed] = arguments.as_slice() else {
        return Err("usage: interference URL TRUST-FILE PLANS SEED".into());
    };
    let credentials = Credentials::parse(&std::fs::read_to_string(trust)?)?;
    let spec = RequestSpec::parse(url, "GET")?;
    let result = measure(&credentials, &spec, plans.parse()?, seed.parse()?).await?;
    println!("{}", serde_json::to_string(&result)?);
    Ok(())
}

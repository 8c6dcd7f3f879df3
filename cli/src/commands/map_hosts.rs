//! Maps from the agents of other hosts.

use app::kinds::map::{HostQuery, Observed, Observing, Range};
use fleet::AllowList;
use model::Failure;
use std::path::Path;

/// The agents of an allow-list. It is an error if none of them answers. Each one that does not answer causes a warning.
pub struct AllowedHosts;

impl HostQuery for AllowedHosts {
    fn query<'a>(&'a self, file: &'a Path, range: Range) -> Observing<'a> {
        Box::pin(async move {
            let list = AllowList::load(file)?;
            let answers = fleet::request_all(&list, range.from_ms, range.to_ms).await;
            if answers.answered == 0 {
                return Err(Failure::environment(format!(
                    "none of the {} hosts in {} answers",
                    list.hosts.len(),
                    file.display()
                ))
                .why(answers.remarks.join("\n"))
                .next("`faultloom agent serve` must run on each of them"));
            }
            Ok(Observed { slice: answers.slice, remarks: answers.remarks })
        })
    }
}

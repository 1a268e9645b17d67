//! The OpenAPI 3.1 documents of the hosts, served and committed.

use crate::answer::{Answer, Refusal};
use crate::host::HostInner;

pub(crate) fn answer(_host: &HostInner) -> Result<Answer, Refusal> {
    Err(Refusal::http(404, "not_found", "no description yet"))
}

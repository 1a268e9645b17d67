//! The monitor page's part for GRP hosts: seeded defects as buttons, rooms with their decisions,
//! and the audit chain with verification marks. Escaping and buttons are `monitor`'s.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::monitor::{button, in_query, short};
use crate::fault::Action;
use crate::grp::{Defect, GrpHost};
use crate::html::escape;

/// Audit entries shown of each room.
const SHOWN: usize = 40;

pub(super) fn render(out: &mut String, host: &GrpHost) {
    render_defects(out, host);
    for slug in host.rooms() {
        render_room(out, host, &slug);
    }
}

/// One button a defect: it is switched on by a fault of the plan, and off by removing it.
fn render_defects(out: &mut String, host: &GrpHost) {
    let on = host.defects();
    let _ = write!(
        out,
        "<details data-key=\"{}/defects\"><summary>Seeded defects <small>{} of {} on</small>\
         </summary><p class=\"buttons\">",
        escape(host.label()),
        on.len(),
        Defect::ALL.len()
    );
    let faults = host.faults();
    let add = format!("/control/faults?host={}", in_query(host.label()));
    for defect in Defect::ALL {
        let planned = faults
            .iter()
            .find(|f| matches!(f.fault.action, Action::Defect { name } if name == *defect));
        match planned {
            Some(fault) => {
                let path =
                    format!("/control/faults/{}?host={}", fault.id.0, in_query(host.label()));
                let text = format!("{} off", defect.name());
                button(out, ("DELETE", &path), &Value::Null, defect.about(), &text);
            }
            None if on.contains(defect) => {
                let _ = write!(out, "<b title=\"since the start\">{}</b> ", defect.name());
            }
            None => {
                let body = json!({ "action": { "defect": { "name": defect } } });
                button(out, ("POST", &add), &body, defect.about(), defect.name());
            }
        }
    }
    out.push_str("</p></details>");
}

fn render_room(out: &mut String, host: &GrpHost, slug: &str) {
    let Some(room) = host.room(slug) else { return };
    let Some(audit) = host.audit(slug) else { return };
    let text = |v: &Value| escape(v.as_str().unwrap_or_default());
    let count = |name: &str| room[name].as_array().map_or(0, Vec::len);
    let _ = write!(
        out,
        "<details open data-key=\"{0}/{1}\"><summary>{2} <small>{1} \u{b7} {3} \u{b7} {4} members \u{b7} \
         {5} decisions \u{b7} {6} audit entries</small></summary>\
         <table><tr><th>n<th>question<th>status<th>outcome<th>receipt</tr>",
        escape(host.label()),
        escape(slug),
        text(&room["about"]),
        text(&room["status"]),
        count("participants"),
        count("decisions"),
        audit.len(),
    );
    for d in room["decisions"].as_array().into_iter().flatten().rev() {
        let outcome = d["resolved_winner"].as_str().or(d["resolved_outcome"].as_str());
        let _ = write!(
            out,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            d["seq"],
            text(&d["question"]),
            text(&d["status"]),
            escape(outcome.unwrap_or_default()),
            short(d["receipt_hash"].as_str().unwrap_or_default())
        );
    }
    out.push_str(
        "</table><table class=\"chain\"><tr><th>\u{2713}<th>seq<th>hash<th>action<th>actor\
         <th>authority<th>transport</tr>",
    );
    let mut previous: Option<&str> = None;
    let rows: Vec<String> = audit
        .iter()
        .map(|entry| {
            let holds = entry.expected_hash(previous) == entry.hash;
            previous = Some(&entry.hash);
            let mark = if holds {
                "<td class=\"good\">\u{2713}"
            } else {
                "<td class=\"bad\" title=\"the hash does not follow from the entry before\">\u{2717}"
            };
            format!(
                "<tr>{mark}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
                entry.seq,
                short(&entry.hash),
                escape(&entry.action),
                short(&entry.actor),
                escape(&entry.authority),
                escape(&entry.transport)
            )
        })
        .collect();
    out.extend(rows.into_iter().rev().take(SHOWN));
    out.push_str("</table></details>");
}

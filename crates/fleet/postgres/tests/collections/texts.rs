//! Texts that recordings share, such as facts and audits: stored once, found by hash, and rejected
//! if they do not match their hash.

use punctual_model::StoredAudit;
use punctual_postgres::PostgresCollection;
use punctual_store::{Collection, Received, SeriesStore, text_hash};

use super::{database, each, epoch, receive, recording};

#[test]
fn texts_are_kept_once_by_their_hash() {
    each(|all| {
        let text = "{\"audit\":null}";
        let hash = text_hash(text);
        assert_eq!(all.text(&hash).unwrap(), None);
        for _ in 0..2 {
            assert_eq!(all.keep_text(text).unwrap(), hash);
        }
        assert_eq!(all.text(&hash).unwrap().as_deref(), Some(text));
        // Recordings with the same audit are loaded with it.
        for number in 1..3 {
            let mut one = recording(number, "a");
            one.audit = Some(StoredAudit {
                role: "control".to_owned(),
                cpus: "0-1".parse().unwrap(),
                findings: Vec::new(),
                ok: 3,
                not_applicable: 1,
            });
            assert_eq!(receive(all, "a", &one, None), Received::New);
            assert_eq!(all.load(one.id).unwrap().1, one);
        }
    });
}

/// Facts that were replaced by facts with another hash are not shown as the machine's facts.
#[test]
fn exchanged_facts_do_not_match_hash() {
    let Some((cluster, url, name)) = database() else {
        return;
    };
    let all = PostgresCollection::open(&url).unwrap();
    let [one, two] = [recording(1, "a"), recording(2, "b")];
    for each in [&one, &two] {
        receive(&all, "a", each, Some(&epoch("a", 1, "{}")));
    }
    let runs = all.runs("osadl", None, None).unwrap();
    let hash = runs[0].facts.clone().unwrap();
    assert_eq!(all.facts(&hash).unwrap(), Some(one.host.clone()));
    let sql =
        format!("UPDATE facts SET body = (SELECT body FROM facts WHERE hash <> '{hash}' LIMIT 1)");
    cluster.sql(&name, &sql).unwrap();
    let message = format!("text {hash} was changed");
    let refused = all.facts(&hash).unwrap_err().to_string();
    assert!(refused.contains(&message), "{refused}");
    let refused = all.load(one.id).unwrap_err().to_string();
    assert!(refused.contains(&message), "{refused}");
    assert_eq!(all.load(two.id).unwrap().1, two);
}

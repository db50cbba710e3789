//! Tests that each token is accepted from only one machine, and that the collector is asked even if
//! nothing is due.

use std::time::Duration;

use punctual_push::{DeliverError, Deliverer, Target};
use punctual_serve::enrol;
use punctual_store::{Collection, Role, Store};

use crate::client::get;
use crate::place::{Sandbox, measured, small};

fn deliverer(url: String, token: Option<&str>, identity: &str) -> Deliverer {
    let target = Target {
        url,
        token: token.map(str::to_owned),
        machine: "board".to_owned(),
        identity: Some(identity.to_owned()),
        roots: None,
    };
    Deliverer::new(target, || false).unwrap()
}

#[test]
fn machines_sharing_a_token_stay_separate() {
    let place = Sandbox::new();
    let collection = place.collection();
    let token = enrol(&collection, "board", Role::Machine).unwrap();
    let viewer = enrol(&collection, "eve", Role::Viewer).unwrap();
    let server = place.serve_as(|config| config.login = true);
    let stores = ["one.db", "two.db"].map(|name| Store::open(&place.file(name)).unwrap());
    measured(&stores[0], &[small(1, "one")]);
    measured(&stores[1], &[small(2, "two")]);
    let deliver = |store: &Store, identity: &str| {
        let url = format!("http://{}", server.address);
        let deliverer = deliverer(url, Some(&token), identity);
        deliverer.deliver(store, Duration::ZERO, &mut |_| {})
    };
    let kept = || collection.machines().unwrap()[0].recordings;
    assert_eq!(deliver(&stores[0], "aaaa 1 one").unwrap().delivered, 1);
    // After a reboot, or with another name, it is still the same machine.
    assert_eq!(deliver(&stores[0], "aaaa 2 renamed").unwrap().due, 0);
    let refused = deliver(&stores[1], "bbbb 9 two").unwrap_err();
    let DeliverError::Token { status, message } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(*status, 403);
    for part in [
        "'renamed'",
        "'board'",
        "'two'",
        "punctual-server moved board",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    // Copies of one disk image have the same machine-id, and the boot of the first copy appears
    // again.
    assert!(deliver(&stores[1], "aaaa 3 renamed").is_ok());
    let copy = deliver(&stores[0], "aaaa 2 renamed").unwrap_err();
    assert!(copy.to_string().contains("disk image"), "{copy}");
    assert_eq!(kept(), 2);

    // The collector also reports it: in its audit log, once per machine, and on its page.
    let lines = collection.audit(20).unwrap();
    let refusals = lines.iter().filter(|line| line.action == "refuse");
    assert_eq!(refusals.count(), 2, "{lines:?}");
    let cookie = format!("punctual_token={viewer}");
    let page = crate::client::send(
        server.address,
        "GET",
        "/machine?name=board",
        &[("Cookie", &cookie)],
        b"",
    );
    let text = page.text();
    assert!(text.contains("<b>two</b> uses the token"), "{text}");

    // Another machine replaces the first one only on request.
    let noted = collection.tokens().unwrap().into_iter();
    let noted = noted
        .filter(|one| one.name == "board")
        .find_map(|one| one.machine);
    assert!(
        collection
            .set_machine("board", noted.as_deref(), None)
            .unwrap()
    );
    assert!(deliver(&stores[1], "bbbb 9 two").is_ok());
    assert!(deliver(&stores[0], "aaaa 2 renamed").is_err());
    assert_eq!(get(server.address, "/health").status, 200);
}

#[test]
fn collector_is_asked_without_due_recordings() {
    let place = Sandbox::new();
    let empty = Store::open(&place.file("empty.db")).unwrap();
    let deliver = |url: String, token| {
        deliverer(url, token, "aaaa 1 one").deliver(&empty, Duration::ZERO, &mut |_| {})
    };
    let url = {
        let server = place.serve_as(|config| config.login = true);
        let url = format!("http://{}", server.address);
        let wrong = deliver(url.clone(), Some("punctual_wrong"));
        assert!(
            matches!(wrong, Err(DeliverError::Token { status: 401, .. })),
            "{wrong:?}"
        );
        url
    };
    // The server is gone.
    let gone = deliver(url, None);
    assert!(matches!(gone, Err(DeliverError::GaveUp(_))), "{gone:?}");
}

//! The API: JSON under `/v1`, health checks, and its description.

mod body;
mod changes;
mod dictionary;
mod health;
mod ingest;
mod longterm;
mod machines;
mod openapi;
mod recordings;
mod sidecar;

pub(crate) use body::unpack;
pub(crate) use ingest::read as read_recording;
pub(crate) use sidecar::read as read_beside;

use axum::routing::{get, post, put};
use punctual_push::protocol;

use crate::access::Need;
use crate::problem::Failure;
use crate::route::Route;

/// A route with its description.
pub(crate) struct Endpoint {
    pub(crate) route: Route,
    /// The purpose in one line.
    pub(crate) summary: &'static str,
    /// Its parameters.
    pub(crate) parameters: &'static [Parameter],
    /// The media type and schema of the request body.
    pub(crate) body: Option<(&'static str, SchemaOf)>,
    /// The responses, each with its status, meaning and schema.
    pub(crate) answers: &'static [(u16, &'static str, Option<SchemaOf>)],
}

/// Key of a schema in `schemas.json`.
pub(crate) type SchemaOf = &'static str;

/// Names the schema of a type. `cargo xtask schemas` reads the keys and types here, and writes
/// `schemas.json`.
macro_rules! schema {
    ($key:literal, $type:ty) => {{
        const _: Option<$type> = None;
        $key
    }};
}

const FAILURE: Option<SchemaOf> = Some(schema!("Failure", Failure));
const ID: Parameter = ("path", "id", "UUID of the recording", true);

/// A parameter: location, name, meaning, and whether it is required.
pub(crate) type Parameter = (&'static str, &'static str, &'static str, bool);
const SERIES: Parameter = ("query", "series", "The series", true);
const MACHINE: Parameter = ("query", "machine", "The machine", false);
const FROM: Parameter = (
    "query",
    "from",
    "Only runs at or after this day or time",
    false,
);
const TO: Parameter = (
    "query",
    "to",
    "Only runs at or before this day or time",
    false,
);
const THRESHOLD: Parameter = (
    "query",
    "threshold",
    "Count the periods with a latency above this value, such as 100us",
    false,
);

/// All endpoints. Add new ones here.
pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        route: Route {
            method: "PUT",
            path: "/v1/recordings/{id}",
            need: Need::Deliver,
            handler: || put(ingest::put),
        },
        summary: "Deliver a recording as JSON, compressed with zstd. The request can be repeated \
                  safely.",
        parameters: &[
            ID,
            (
                "header",
                protocol::HASH,
                "SHA-256 of the JSON before compression, in hexadecimal digits",
                true,
            ),
            (
                "header",
                protocol::SERIES,
                "Series of the recording, as JSON: name, epoch, definition, begun",
                false,
            ),
            (
                "header",
                protocol::DICTIONARY,
                "Dictionary used to compress the body; see /v1/dictionaries",
                false,
            ),
        ],
        body: Some((
            "application/json",
            schema!("Recording", punctual_model::Recording),
        )),
        answers: &[
            (
                200,
                "The recording was already stored",
                Some(schema!("Receipt", ingest::Receipt)),
            ),
            (
                201,
                "The recording was stored",
                Some(schema!("Receipt", ingest::Receipt)),
            ),
            (
                400,
                "The body was damaged in transit: send it again",
                FAILURE,
            ),
            (408, "The body took too long", FAILURE),
            (
                409,
                "Different content is stored under this ID; the recording was quarantined",
                FAILURE,
            ),
            (411, "The length of the body is missing", FAILURE),
            (413, "Too large", FAILURE),
            (415, "Not compressed with zstd", FAILURE),
            (422, "Not a valid recording; it was quarantined", FAILURE),
            (
                424,
                "The dictionary is not stored on the collector: send it first, or send the body \
                 without a dictionary",
                FAILURE,
            ),
            (
                429,
                "Too many requests: retry after the time in the header Retry-After",
                FAILURE,
            ),
            (
                501,
                "The schema is newer than this collector: update it; the machine keeps the recording",
                FAILURE,
            ),
        ],
    },
    Endpoint {
        route: Route {
            method: "PUT",
            path: "/v1/dictionaries/{hash}",
            need: Need::Deliver,
            handler: || put(dictionary::put),
        },
        summary: "Deliver a dictionary for the compression of recordings.",
        parameters: &[(
            "path",
            "hash",
            "First 32 hexadecimal digits of the dictionary's SHA-256",
            true,
        )],
        body: Some(("application/octet-stream", schema!("String", String))),
        answers: &[
            (
                200,
                "The dictionary was stored",
                Some(schema!("Named", dictionary::Named)),
            ),
            (
                400,
                "The content does not match the path, or is not UTF-8",
                FAILURE,
            ),
            (413, "Too large", FAILURE),
            (415, "Not compressed with zstd", FAILURE),
            (
                429,
                "Too many requests: retry after the time in the header Retry-After",
                FAILURE,
            ),
        ],
    },
    Endpoint {
        route: Route {
            method: "POST",
            path: "/v1/lacking",
            need: Need::Deliver,
            handler: || post(ingest::lacking),
        },
        summary: "Ask which of these recordings the collector does not have, for example after a \
            restore.",
        parameters: &[],
        body: Some(("application/json", schema!("Ids", protocol::Ids))),
        answers: &[(
            200,
            "The recordings that the collector does not have",
            Some(schema!("Ids", protocol::Ids)),
        )],
    },
    Endpoint {
        route: Route {
            method: "POST",
            path: "/v1/beside",
            need: Need::Deliver,
            handler: || post(sidecar::post),
        },
        summary: "Deliver windows of wake-ups, slots, notes and decisions, compressed with zstd.",
        parameters: &[],
        body: Some(("application/json", schema!("Sidecar", protocol::Sidecar))),
        answers: &[
            (
                200,
                "Number of new entries",
                Some(schema!("Taken", sidecar::Taken)),
            ),
            (
                400,
                "The body was damaged in transit: send it again",
                FAILURE,
            ),
            (408, "The body took too long", FAILURE),
            (411, "The length of the body is missing", FAILURE),
            (413, "Too large", FAILURE),
            (415, "Not compressed with zstd", FAILURE),
            (422, "The data is invalid", FAILURE),
            (
                429,
                "Too many requests: retry after the time in the header Retry-After",
                FAILURE,
            ),
        ],
    },
    Endpoint {
        route: Route {
            method: "GET",
            path: "/v1/recordings",
            need: Need::Read,
            handler: || get(recordings::list),
        },
        summary: "List recordings, the newest first.",
        parameters: &[
            ("query", "machine", "Only recordings of this machine", false),
            ("query", "probe", "Only recordings of this probe", false),
            (
                "query",
                "outcome",
                "Only recordings whose requirement has this outcome",
                false,
            ),
            (
                "query",
                "after",
                "The value of `next` from the previous page",
                false,
            ),
            (
                "query",
                "limit",
                "Maximum number of results, 1 to 1000; default 100",
                false,
            ),
        ],
        body: None,
        answers: &[
            (
                200,
                "A page of the list",
                Some(schema!("Page", recordings::Page)),
            ),
            (400, "A parameter is wrong", FAILURE),
        ],
    },
    Endpoint {
        route: Route {
            method: "GET",
            path: "/v1/recordings/{id}",
            need: Need::Read,
            handler: || get(recordings::get),
        },
        summary: "Get a recording.",
        parameters: &[ID],
        body: None,
        answers: &[
            (
                200,
                "The recording",
                Some(schema!("Recording", punctual_model::Recording)),
            ),
            (404, "The recording is not stored on the collector", FAILURE),
        ],
    },
    Endpoint {
        route: Route {
            method: "GET",
            path: "/v1/machines",
            need: Need::Read,
            handler: || get(machines::list),
        },
        summary: "List the machines, by name, with their states.",
        parameters: &[],
        body: None,
        answers: &[(
            200,
            "All machines",
            Some(schema!("Machines", Vec<machines::MachineJson>)),
        )],
    },
    Endpoint {
        route: Route {
            method: "GET",
            path: "/v1/changes",
            need: Need::Read,
            handler: || get(changes::get),
        },
        summary: "List the change points of a series, with the changes on the machine.",
        parameters: &[SERIES, MACHINE, FROM, TO, THRESHOLD],
        body: None,
        answers: &[
            (
                200,
                "The change points by group",
                Some(schema!("Changes", changes::ChangesJson)),
            ),
            (400, "A parameter is wrong", FAILURE),
            (404, "This server has no series", FAILURE),
            (422, "The series cannot be judged", FAILURE),
        ],
    },
    Endpoint {
        route: Route {
            method: "GET",
            path: "/v1/longterm",
            need: Need::Read,
            handler: || get(longterm::get),
        },
        summary: "Get the figures of the runs of a series, for plots.",
        parameters: &[
            SERIES,
            MACHINE,
            (
                "query",
                "group",
                "Number of the group, starting at 0",
                false,
            ),
            FROM,
            TO,
            THRESHOLD,
        ],
        body: None,
        answers: &[
            (
                200,
                "The runs of the group",
                Some(schema!("LongTerm", longterm::LongTermJson)),
            ),
            (400, "A parameter is wrong", FAILURE),
            (404, "No such group", FAILURE),
            (422, "The series cannot be judged", FAILURE),
        ],
    },
    Endpoint {
        route: Route {
            method: "GET",
            path: "/v1/quarantine",
            need: Need::Change,
            handler: || get(machines::quarantine),
        },
        summary: "List the deliveries that were quarantined, the newest first.",
        parameters: &[],
        body: None,
        answers: &[(
            200,
            "At most 1000 of them",
            Some(schema!("Quarantineds", Vec<machines::QuarantinedJson>)),
        )],
    },
    Endpoint {
        route: Route {
            method: "GET",
            path: "/v1/audit",
            need: Need::Change,
            handler: || get(machines::audit),
        },
        summary: "List the changes that users made, the newest first.",
        parameters: &[],
        body: None,
        answers: &[(
            200,
            "At most 1000 lines",
            Some(schema!("Audits", Vec<machines::AuditJson>)),
        )],
    },
    Endpoint {
        route: Route {
            method: "GET",
            path: "/v1/openapi.json",
            need: Need::Read,
            handler: || get(openapi::get),
        },
        summary: "Get this description.",
        parameters: &[],
        body: None,
        answers: &[(200, "OpenAPI 3.1", None)],
    },
    Endpoint {
        route: Route {
            method: "GET",
            path: "/metrics",
            need: Need::Read,
            handler: || get(crate::metrics::get),
        },
        summary: "Get metrics for Prometheus. The header Accept selects text or protobuf.",
        parameters: &[],
        body: None,
        answers: &[(200, "Metrics of all machines", None)],
    },
    Endpoint {
        route: Route {
            method: "GET",
            path: "/health",
            need: Need::Open,
            handler: || get(health::health),
        },
        summary: "Whether the process answers.",
        parameters: &[],
        body: None,
        answers: &[(200, "It does", None)],
    },
    Endpoint {
        route: Route {
            method: "GET",
            path: "/ready",
            need: Need::Open,
            handler: || get(health::ready),
        },
        summary: "Check whether the store can be read.",
        parameters: &[],
        body: None,
        answers: &[(200, "It can", None), (503, "It cannot", FAILURE)],
    },
];

# Builds offline from a tarball that holds the sources and, in vendor/, all crates:
# `cargo xtask dist-sources` creates it. Put it into the folder `files` next to this recipe.
# Needs the class cargo of openembedded-core (Rust 1.90 or later).
SUMMARY = "Real-time latency measurement, diagnosis and tuning"
DESCRIPTION = "Measures how late a machine reacts, names the causes, and audits and tunes its settings."
SECTION = "devel"
LICENSE = "MIT | Apache-2.0"
LIC_FILES_CHKSUM = "file://LICENSE-MIT;md5=1ed977cae7d5d460b09107fa840ef13f \
                    file://LICENSE-APACHE;md5=3b83ef96387f14655fc854ddc3c6bd57"

SRC_URI = "file://punctual-${PV}-vendored.tar.gz"

inherit cargo

# cargo runs outside of the sources, so it does not find their configuration by itself.
CARGO_BUILD_FLAGS += "--package punctual --config ${S}/.cargo/config.toml --config ${S}/.cargo/vendor.toml"
CARGO_DISABLE_BITBAKE_VENDORING = "1"

do_install() {
    install -D -m 0755 ${B}/target/${CARGO_TARGET_SUBDIR}/punctual ${D}${bindir}/punctual
}

# Nothing is enabled by default. On the board, run `punctual tune enable PROFILE`.
FILES:${PN} = "${bindir}/punctual"

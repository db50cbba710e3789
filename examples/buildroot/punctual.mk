################################################################################
#
# punctual: built offline from a tarball with all crates in vendor/
# (`cargo xtask dist-sources` makes it).
#
################################################################################

PUNCTUAL_VERSION = 0.1.0
PUNCTUAL_SOURCE = punctual-$(PUNCTUAL_VERSION)-vendored.tar.gz
PUNCTUAL_SITE = $(PUNCTUAL_PKGDIR)
PUNCTUAL_SITE_METHOD = file
PUNCTUAL_LICENSE = MIT or Apache-2.0
PUNCTUAL_LICENSE_FILES = LICENSE-MIT LICENSE-APACHE
PUNCTUAL_CARGO_BUILD_OPTS = --package punctual --config .cargo/vendor.toml
PUNCTUAL_CARGO_INSTALL_OPTS = --path crates/cli/punctual --config .cargo/vendor.toml

$(eval $(cargo-package))

################################################################################
#
# punctual
#
################################################################################

# The archive of `cargo xtask dist-sources`, in this folder. It has all crates in
# vendor/, so this package does not use cargo-package, which would download them.
PUNCTUAL_VERSION = 0.1.0
PUNCTUAL_SOURCE = punctual-$(PUNCTUAL_VERSION)-vendored.tar.gz
PUNCTUAL_SITE = $(abspath $(PUNCTUAL_PKGDIR))
PUNCTUAL_SITE_METHOD = file
PUNCTUAL_LICENSE = MIT or Apache-2.0, licenses of the crates in vendor
PUNCTUAL_LICENSE_FILES = LICENSE-MIT LICENSE-APACHE
PUNCTUAL_DEPENDENCIES = host-rustc

define PUNCTUAL_BUILD_CMDS
	cd $(@D) && $(TARGET_MAKE_ENV) $(TARGET_CONFIGURE_OPTS) $(PKG_CARGO_ENV) \
		cargo build --release --offline --locked \
			--config .cargo/vendor.toml --package punctual
endef

define PUNCTUAL_INSTALL_TARGET_CMDS
	$(INSTALL) -D -m 0755 $(@D)/target/$(RUSTC_TARGET_NAME)/release/punctual \
		$(TARGET_DIR)/usr/bin/punctual
endef

$(eval $(generic-package))
